/**
 * Commands of programs that npm does not have, and their options that the guides use: each as its documentation names it. Of AWS
 * also as the clients of the AWS SDK name the same operations; of azd as its own usage texts do; of az as its source does.
 */
export interface DocumentedCommand {
  readonly options: readonly string[];
  /** The title of the page, or the file, that they were compared with. */
  readonly from: string;
}

const az = "Azure CLI reference: az ";
const aws = "AWS CLI command reference: ";
const azd = "Azure Developer CLI reference: azd ";

/** Options of every command of a program. */
export const commonOptions: Readonly<Record<string, readonly string[]>> = {
  az: ["--output", "--query"],
  aws: ["--output", "--query", "--region"],
  azd: [],
  psql: [],
  sqlcmd: [],
};

const group = ["--resource-group"];
const named = [...group, "--name"];

export const documentedCommands: Readonly<Record<string, DocumentedCommand>> = {
  "az account get-access-token": { options: ["--resource-type"], from: `${az}account` },
  "az ad group create": { options: ["--display-name", "--mail-nickname"], from: `${az}ad group` },
  "az ad group member add": { options: ["--group", "--member-id"], from: `${az}ad group member` },
  "az ad signed-in-user show": { options: [], from: `${az}ad signed-in-user` },
  "az functionapp deployment source config-zip": {
    options: [...named, "--src"],
    from: `${az}functionapp deployment source`,
  },
  "az functionapp function list": { options: named, from: `${az}functionapp function` },
  "az functionapp keys list": { options: named, from: `${az}functionapp keys` },
  "az functionapp list": { options: group, from: `${az}functionapp` },
  "az functionapp restart": { options: named, from: `${az}functionapp` },
  "az login": { options: [], from: `${az}login` },
  "az monitor action-group test-notifications create": {
    options: [...group, "--action-group-name", "--add-action", "--alert-type"],
    from: `${az}monitor action-group test-notifications`,
  },
  "az monitor app-insights query": {
    options: [...group, "--app", "--analytics-query"],
    from: `${az}monitor app-insights (an extension, which az installs)`,
  },
  "az monitor log-analytics query": {
    options: ["--workspace", "--analytics-query"],
    from: `${az}monitor log-analytics (an extension, which az installs)`,
  },
  "az monitor log-analytics workspace show": {
    options: [...group, "--workspace-name"],
    from: `${az}monitor log-analytics workspace`,
  },
  "az postgres flexible-server firewall-rule create": {
    options: [...named, "--server-name", "--start-ip-address", "--end-ip-address"],
    from: `${az}postgres flexible-server firewall-rule (since 2.86)`,
  },
  "az postgres flexible-server show": { options: named, from: `${az}postgres flexible-server` },
  "az provider register": { options: ["--namespace"], from: `${az}provider` },
  "az rest": { options: ["--method", "--url", "--body"], from: `${az}rest` },
  "az role assignment create": {
    options: ["--role", "--assignee-object-id", "--assignee-principal-type", "--scope"],
    from: `${az}role assignment`,
  },
  "az role assignment delete": { options: ["--role", "--assignee", "--scope"], from: `${az}role assignment` },
  "az role assignment list": { options: ["--all"], from: `${az}role assignment` },
  "az sql server firewall-rule create": {
    options: [...named, "--server", "--start-ip-address", "--end-ip-address"],
    from: `${az}sql server firewall-rule`,
  },
  "az sql server firewall-rule delete": {
    options: [...named, "--server"],
    from: `${az}sql server firewall-rule`,
  },
  "az sql server show": { options: named, from: `${az}sql server` },
  "az storage message clear": {
    options: ["--queue-name", "--account-name", "--auth-mode"],
    from: `${az}storage message`,
  },
  "az storage message peek": {
    options: ["--queue-name", "--account-name", "--auth-mode", "--num-messages"],
    from: `${az}storage message`,
  },

  "azd auth login": { options: [], from: `${azd}auth login` },
  "azd deploy": { options: [], from: `${azd}deploy` },
  "azd down": { options: ["--purge"], from: `${azd}down` },
  "azd env get-values": { options: [], from: `${azd}env get-values` },
  "azd env new": { options: ["--location"], from: `${azd}env new` },
  "azd env set": { options: [], from: `${azd}env set` },
  "azd provision": { options: [], from: `${azd}provision` },
  "azd up": { options: [], from: `${azd}up` },

  "aws cloudformation create-change-set": {
    options: [
      "--stack-name",
      "--change-set-name",
      "--change-set-type",
      "--template-body",
      "--resources-to-import",
    ],
    from: `${aws}cloudformation create-change-set`,
  },
  "aws cloudformation describe-stack-resource": {
    options: ["--stack-name", "--logical-resource-id"],
    from: `${aws}cloudformation describe-stack-resource`,
  },
  "aws cloudformation describe-stacks": {
    options: ["--stack-name"],
    from: `${aws}cloudformation describe-stacks`,
  },
  "aws cloudformation execute-change-set": {
    options: ["--stack-name", "--change-set-name"],
    from: `${aws}cloudformation execute-change-set`,
  },
  "aws cloudformation get-template": { options: ["--stack-name"], from: `${aws}cloudformation get-template` },
  "aws cloudformation wait change-set-create-complete": {
    options: ["--stack-name", "--change-set-name"],
    from: `${aws}cloudformation wait change-set-create-complete`,
  },
  "aws cloudwatch describe-alarms": {
    options: ["--alarm-name-prefix"],
    from: `${aws}cloudwatch describe-alarms`,
  },
  "aws configure": { options: [], from: `${aws}configure` },
  "aws ec2 authorize-security-group-ingress": {
    options: ["--group-id", "--protocol", "--port", "--source-group"],
    from: `${aws}ec2 authorize-security-group-ingress`,
  },
  "aws ec2 describe-vpcs": { options: ["--vpc-ids"], from: `${aws}ec2 describe-vpcs` },
  "aws ec2 revoke-security-group-ingress": {
    options: ["--group-id", "--protocol", "--port", "--source-group"],
    from: `${aws}ec2 revoke-security-group-ingress`,
  },
  "aws kms schedule-key-deletion": {
    options: ["--key-id", "--pending-window-in-days"],
    from: `${aws}kms schedule-key-deletion`,
  },
  "aws lambda get-account-settings": { options: [], from: `${aws}lambda get-account-settings` },
  "aws lambda invoke": { options: ["--function-name"], from: `${aws}lambda invoke` },
  "aws logs describe-log-groups": {
    options: ["--log-group-name-prefix"],
    from: `${aws}logs describe-log-groups`,
  },
  "aws logs tail": { options: ["--since", "--filter-pattern"], from: `${aws}logs tail` },
  "aws rds create-db-instance": {
    options: [
      ...["--db-instance-identifier", "--engine", "--db-instance-class", "--allocated-storage", "--db-name"],
      ...[
        "--storage-encrypted",
        "--master-username",
        "--manage-master-user-password",
        "--no-publicly-accessible",
      ],
    ],
    from: `${aws}rds create-db-instance`,
  },
  "aws rds delete-db-instance": { options: [], from: `${aws}rds delete-db-instance` },
  "aws rds describe-db-instances": {
    options: ["--db-instance-identifier"],
    from: `${aws}rds describe-db-instances`,
  },
  "aws rds wait db-instance-available": {
    options: ["--db-instance-identifier"],
    from: `${aws}rds wait db-instance-available`,
  },
  "aws secretsmanager create-secret": {
    options: ["--name", "--kms-key-id", "--secret-string"],
    from: `${aws}secretsmanager create-secret`,
  },
  "aws secretsmanager delete-secret": {
    options: ["--secret-id", "--force-delete-without-recovery"],
    from: `${aws}secretsmanager delete-secret`,
  },
  "aws secretsmanager get-secret-value": {
    options: ["--secret-id"],
    from: `${aws}secretsmanager get-secret-value`,
  },
  "aws secretsmanager list-secrets": { options: ["--filters"], from: `${aws}secretsmanager list-secrets` },
  "aws secretsmanager put-secret-value": {
    options: ["--secret-id", "--secret-string"],
    from: `${aws}secretsmanager put-secret-value`,
  },
  "aws sns list-subscriptions": { options: [], from: `${aws}sns list-subscriptions` },
  "aws sqs purge-queue": { options: ["--queue-url"], from: `${aws}sqs purge-queue` },
  "aws sqs send-message": {
    options: ["--queue-url", "--message-body", "--message-attributes"],
    from: `${aws}sqs send-message`,
  },
  "aws sqs start-message-move-task": {
    options: ["--source-arn"],
    from: `${aws}sqs start-message-move-task`,
  },

  psql: { options: ["-f", "-c"], from: "PostgreSQL: psql" },
  sqlcmd: {
    options: ["-S", "-d", "-i", "-v", "-Q", "--authentication-method"],
    from: "sqlcmd utility: sqlcmd (Go)",
  },
};
