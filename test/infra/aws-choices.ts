import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readOwnerSettings } from "../../src/config/aws-settings.js";
import { type Resource, root, type Template } from "./aws-stack.js";

interface Stack {
  readonly json: Template;
}
type Stacks = Readonly<Record<"dev" | "prod" | "otherChoices", Stack>>;

const ofType = ({ json }: Stack, type: string): [string, Resource][] =>
  Object.entries(json.Resources).filter(([, { Type }]) => Type === type);
const properties = ({ json }: Stack, name: string) => json.Resources[name]!.Properties;
const variables = (stack: Stack, name: string) =>
  properties(stack, `${name}LambdaFunction`).Environment.Variables;
const statements = (stack: Stack, name: string) =>
  properties(stack, name).Policies[0].PolicyDocument.Statement as { Action: unknown; Resource: unknown }[];

const account = `arn:\${AWS::Partition}:`;
const dispatchFunction = {
  "Fn::Sub": `${account}lambda:\${AWS::Region}:\${AWS::AccountId}:function:orders-prod-dispatch`,
};

/** What a first deployment needs, and what each choice of a parameter changes. */
export function describeChoices(stacks: () => Stacks): void {
  describe("its choices", () => {
    it("FUN-10 every function trusts Amazon's certificates, with which RDS signs", () => {
      for (const stack of Object.values(stacks())) {
        for (const [, { Properties }] of ofType(stack, "AWS::Lambda::Function")) {
          expect(Properties.Environment.Variables.NODE_EXTRA_CA_CERTS).toBe("/var/runtime/ca-cert.pem");
          expect(Properties.Runtime).toBe("nodejs22.x"); // which has them in this file
        }
      }
    });

    it("FUN-10 in a VPC the endpoints take calls from all of it, because their private names are everybody's", () => {
      const { prod } = stacks();
      expect(properties(prod, "EndpointsSecurityGroup").SecurityGroupIngress).toEqual([
        expect.objectContaining({ FromPort: 443, ToPort: 443, CidrIp: "10.0.0.0/16" }),
      ]);
      const endpoints = ofType(prod, "AWS::EC2::VPCEndpoint");
      expect(
        endpoints.map(([, { Properties }]) => Properties.ServiceName["Fn::Sub"].split(".").at(-1)),
      ).toEqual(["secretsmanager", "sqs"]);
      for (const [, { Properties }] of endpoints) expect(Properties.PrivateDnsEnabled).toBe(true);
    });

    it("FUN-10 vpcEndpoints=existing makes no endpoint, since a VPC can have only one with a private name", () => {
      const { prod, otherChoices } = stacks();
      const conditional = [
        ...ofType(prod, "AWS::EC2::VPCEndpoint").map(([name]) => name),
        "EndpointsSecurityGroup",
      ];
      for (const name of conditional)
        expect(otherChoices.json.Resources[name]!.Condition).toBe("MakesEndpoints");
      const made = ({ json }: Stack) => json.Conditions!.MakesEndpoints;
      expect(made(prod)).toEqual({ "Fn::Equals": ["create", "create"] });
      expect(made(otherChoices)).toEqual({ "Fn::Equals": ["existing", "create"] });
    });

    it("FUN-10 functions in a VPC reach the database and AWS in it, and nothing outside unless egressCidr names it", () => {
      const { prod, otherChoices } = stacks();
      const ways = (stack: Stack) =>
        properties(stack, "FunctionsSecurityGroup").SecurityGroupEgress.map(
          (rule: { FromPort: number; ToPort: number; CidrIp: string }) => {
            expect(rule.ToPort).toBe(rule.FromPort);
            return [rule.FromPort, rule.CidrIp];
          },
        );
      // The port follows the database.
      expect(ways(prod)).toEqual([5432, 443].map((port) => [port, "10.0.0.0/16"]));
      expect(ways(otherChoices)).toEqual([1433, 443].map((port) => [port, "10.0.0.0/16"]));
      const more = ofType(prod, "AWS::EC2::SecurityGroupEgress");
      expect(more.map(([name, { Condition }]) => [name, Condition])).toEqual([
        ["HandlersEgress", "HasEgress"],
      ]);
      const range = ({ json }: Stack) => json.Conditions!.HasEgress;
      expect(range(prod)).toEqual({ "Fn::Not": [{ "Fn::Equals": ["", ""] }] });
      expect(properties(otherChoices, "HandlersEgress")).toMatchObject({
        CidrIp: "0.0.0.0/0",
        FromPort: 443,
      });
    });

    it("FUN-10 live=false: until the secrets have values no schedule runs, and no alarm notifies anybody", () => {
      const { dev, prod, otherChoices } = stacks();
      for (const [stack, isLive] of [
        [dev, true],
        [prod, true],
        [otherChoices, false],
      ] as const) {
        const alarms = ofType(stack, "AWS::CloudWatch::Alarm");
        expect(alarms.length).toBeGreaterThan(12);
        for (const [name, { Properties }] of alarms)
          expect([name, Properties.ActionsEnabled]).toEqual([name, isLive]);
        const rules = ofType(stack, "AWS::Events::Rule");
        // Two more for messages, and one for the recovery of GitHub's deliveries.
        expect(rules).toHaveLength(stack === dev ? 3 : stack === prod ? 5 : 6);
        for (const [, { Properties }] of rules)
          expect(Properties.State).toBe(isLive ? "ENABLED" : "DISABLED");
      }
    });

    it("FUN-10 each of the webhook's routes is throttled, and both together stay below its concurrency", () => {
      const answerSeconds = 0.1;
      for (const stack of Object.values(stacks())) {
        const { RouteSettings, DefaultRouteSettings } = properties(stack, "HttpApiStage");
        const routes = ofType(stack, "AWS::ApiGatewayV2::Route").filter(([, { Properties }]) =>
          Properties.RouteKey.startsWith("ANY /webhooks/"),
        );
        expect(routes).toHaveLength(2);
        const limits = routes.map(([, { Properties }]) => RouteSettings[Properties.RouteKey]);
        const sum = (name: string) => limits.reduce((all, one) => all + one[name], 0);
        const { ReservedConcurrentExecutions: most } = properties(stack, "WebhookLambdaFunction");
        expect(sum("ThrottlingBurstLimit")).toBeLessThanOrEqual(most);
        expect(sum("ThrottlingRateLimit") * answerSeconds).toBeLessThanOrEqual(most);
        expect(DefaultRouteSettings.ThrottlingRateLimit).toBeGreaterThan(0);
        // A stage cannot have settings of a route that is not there yet.
        expect(stack.json.Resources.HttpApiStage!.DependsOn).toEqual(
          expect.arrayContaining(routes.map(([name]) => name)),
        );
      }
    });

    it("FUN-10 the access log has the sender's address, and neither query nor headers", () => {
      const line = JSON.parse(properties(stacks().dev, "HttpApiStage").AccessLogSettings.Format);
      expect(line.ip).toBe("$context.identity.sourceIp");
      expect(JSON.stringify(line)).not.toMatch(/query|header|authorizer/i);
    });

    it("FUN-10 logEncryption=key encrypts every log with the stack's key, which only these logs may use", () => {
      const { dev, otherChoices } = stacks();
      const groups = ofType(otherChoices, "AWS::Logs::LogGroup");
      expect(groups.length).toBeGreaterThan(ofType(dev, "AWS::Logs::LogGroup").length); // service and admin
      for (const [name, { Properties }] of groups)
        expect([name, Properties.KmsKeyId]).toEqual([name, { "Fn::GetAtt": ["LogsKey", "Arn"] }]);
      for (const [, { Properties }] of ofType(dev, "AWS::Logs::LogGroup"))
        expect(Properties.KmsKeyId).toBeUndefined();
      const [, logs] = properties(otherChoices, "LogsKey").KeyPolicy.Statement;
      expect(logs.Principal.Service).toEqual({ "Fn::Sub": `logs.\${AWS::Region}.amazonaws.com` });
      const allowed = logs.Condition.ArnLike["kms:EncryptionContext:aws:logs:arn"] as { "Fn::Sub": string }[];
      const patterns = allowed.map((arn) => arn["Fn::Sub"].split(":log-group:")[1]!.replace("*", ""));
      for (const [, { Properties }] of groups)
        expect(patterns.some((pattern) => Properties.LogGroupName.startsWith(pattern))).toBe(true);
    });

    it("FUN-03 FUN-10 wakeUp=invoke: the dispatcher is woken by invocations, and there is no queue for it", () => {
      const { otherChoices, prod } = stacks();
      for (const name of ["Webhook", "Consume", "Dispatch", "Reap", "Cleanup"]) {
        const { ONCEBOX_DISPATCH_FUNCTION: woken, ONCEBOX_WAKE_QUEUE_URL: queue } = variables(
          otherChoices,
          name,
        );
        expect([woken, queue]).toEqual([
          properties(otherChoices, "DispatchLambdaFunction").FunctionName,
          undefined,
        ]);
        expect(variables(prod, name).ONCEBOX_DISPATCH_FUNCTION).toBeUndefined();
      }
      for (const name of ["WebhookRole", "ConsumeRole", "DispatchRole"]) {
        expect(statements(otherChoices, name).at(-1)).toEqual({
          Effect: "Allow",
          Action: "lambda:InvokeFunction",
          Resource: dispatchFunction,
        });
        expect(JSON.stringify(statements(prod, name))).not.toContain("lambda:");
      }
      expect(JSON.stringify(otherChoices.json)).not.toMatch(/WakeUp(Queue|DeadLetters)/);
      expect(properties(otherChoices, "WakeUpEndpoint").ServiceName["Fn::Sub"]).toMatch(/\.lambda$/);
      const batches = properties(otherChoices, "TenantBatchPolicy").PolicyDocument.Statement;
      expect(batches).toEqual([statements(otherChoices, "DispatchRole").at(-1)]);
    });

    it("FUN-10 the guide's plan names every service that the stacks use, and no other", () => {
      const guide = readFileSync(join(root, "docs/deploy-aws.md"), "utf8");
      const [, plan = ""] = guide.split(/^### The plan$|^## 3\. /m);
      const named = [...plan.matchAll(/`(AWS::\w+)`/g)].map(([, name]) => name);
      const used = Object.values(stacks()).flatMap(({ json }) =>
        Object.values(json.Resources).map(({ Type }) => Type.split("::").slice(0, 2).join("::")),
      );
      expect([...new Set(named)].sort()).toEqual([...new Set(used)].sort());
    });

    it("FUN-10 migrate=true: one more function: only it reads the owner's secret, and it fills the functions' secret", () => {
      const { dev, prod, otherChoices } = stacks();
      for (const stack of [dev, prod]) expect(JSON.stringify(stack.json)).not.toMatch(/Migrate|OWNER/);
      expect(properties(otherChoices, "MigrateTenantSecretsPolicy").PolicyDocument).toEqual(
        properties(otherChoices, "TenantSecretsPolicy").PolicyDocument,
      );
      expect(variables(otherChoices, "Migrate").ONCEBOX_CATALOGUE_SECRET).toBe("");
      const owner = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:rds!db-1-AbCdEf";
      const fills = ["DescribeSecret", "GetSecretValue", "PutSecretValue"].map(
        (one) => `secretsmanager:${one}`,
      );
      expect(statements(otherChoices, "MigrateRole").map(({ Action, Resource: to }) => [Action, to])).toEqual(
        [
          [["logs:CreateLogStream", "logs:PutLogEvents"], { "Fn::GetAtt": ["MigrateLogGroup", "Arn"] }],
          ["secretsmanager:GetSecretValue", owner],
          [fills, { Ref: "DatabaseUrlSecret" }],
          [["kms:Decrypt", "kms:GenerateDataKey"], { "Fn::GetAtt": ["EncryptionKey", "Arn"] }],
        ],
      );
      const readers = ofType(otherChoices, "AWS::IAM::Role").filter(([, role]) =>
        JSON.stringify(role).includes(owner),
      );
      expect(readers.map(([name]) => name)).toEqual(["MigrateRole"]);
      const { Role, VpcConfig } = properties(otherChoices, "MigrateLambdaFunction");
      expect(Role).toEqual({ "Fn::GetAtt": ["MigrateRole", "Arn"] });
      expect(VpcConfig).toEqual(properties(otherChoices, "WebhookLambdaFunction").VpcConfig);
      const { ONCEBOX_OWNER_SECRET: secret, ONCEBOX_OWNER_URL: url } = variables(otherChoices, "Migrate");
      expect(readOwnerSettings({ ONCEBOX_OWNER_SECRET: secret, ONCEBOX_OWNER_URL: url })).toMatchObject({
        database: "sqlserver",
        secret: { id: owner },
      });
      // Nothing starts it but a deployment, and nothing retries it.
      const starters = [
        "AWS::Events::Rule",
        "AWS::Lambda::EventSourceMapping",
        "AWS::ApiGatewayV2::Integration",
      ];
      for (const type of starters)
        expect(JSON.stringify(ofType(otherChoices, type))).not.toContain("MigrateLambdaFunction");
    });

    it("FUN-08 FUN-10 tenants=secrets: functions may list secrets, and read only those of tenants", () => {
      const { otherChoices } = stacks();
      const readable = {
        "Fn::Sub": `${account}secretsmanager:\${AWS::Region}:\${AWS::AccountId}:secret:orders/prod/tenants/*`,
      };
      for (const [policy, roles] of [
        ["TenantSecretsPolicy", ["WebhookRole", "DispatchRole", "ReapRole", "CleanupRole"]],
        ["AdminTenantSecretsPolicy", ["AdminRole"]],
      ] as const) {
        const { Roles, PolicyDocument } = properties(otherChoices, policy);
        expect(Roles).toEqual(roles.map((Ref) => ({ Ref })));
        expect(PolicyDocument.Statement).toEqual([
          {
            Effect: "Allow",
            Action: ["secretsmanager:ListSecrets", "secretsmanager:BatchGetSecretValue"],
            Resource: "*",
          },
          { Effect: "Allow", Action: "secretsmanager:GetSecretValue", Resource: readable },
        ]);
      }
      for (const name of ["Webhook", "Dispatch", "Reap", "Cleanup", "Admin"])
        expect(variables(otherChoices, name).TENANTS_PREFIX).toBe("orders/prod/tenants/");
      expect(otherChoices.json.Resources.CatalogueSecret).toBeUndefined();
      expect(otherChoices.json.Resources.OldestAgeOfTenantBatches).toBeDefined();
    });
  });
}
