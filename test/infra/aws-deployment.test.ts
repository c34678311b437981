import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { RegoEngine, TemplateFile } from "@aws/cloudformation-validate";
import { loadAwsServiceSpecSync } from "@aws-cdk/aws-service-spec";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { unzipSync } from "fflate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readEnvironment, readGithubRecovery } from "../../src/config/environment.js";
import { isSecretReference } from "../../src/config/secret-reference.js";
import { adminDefaults } from "../../src/http/admin-access.js";
import { inboxServiceDefaults } from "../../src/inbox-store/http/inbox-service.js";
import { migrate } from "../../src/index.js";
import { packageFunctions } from "../../src/packaging/package-functions.js";
import { answerOf, stripeHttpEvent, webhookSecret } from "../runtime/aws/http-events.js";
import { type LambdaFunction, lambdaFunction } from "../runtime/aws/lambda-function.js";
import { startGithubApi } from "../support/servers/github-api.js";
import { describeChoices } from "./aws-choices.js";
import { describeMessaging } from "./aws-messaging.js";
import { describePolicies } from "./aws-policies.js";
import { type AwsProject, packageForAws, type Resource, root, type Template } from "./aws-stack.js";
import { ownDatabase } from "./own-database.js";
import { unpacked } from "./packed.js";

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

interface ResourceToImport {
  readonly ResourceType: string;
  readonly LogicalResourceId: string;
  readonly ResourceIdentifier: Readonly<Record<string, string>>;
}

const functionNames = ["Webhook", "Consume", "Dispatch", "Reap", "Cleanup"] as const;
const appName = "orders";
const inVpc = {
  network: "vpc",
  vpcId: "vpc-0a1b2c3d4e5f60718",
  vpcCidr: "10.0.0.0/16",
  subnetIds: "subnet-0a1b2c3d4e5f60718,subnet-0a1b2c3d4e5f60719",
  alarmEmail: "ops@example.com",
  tenants: "catalogue",
  reapMinutes: "10",
  deadRetentionDays: "90",
  service: "true",
  admin: "true",
  messaging: "true",
  shopAddress: "https://shop.example/_rf/receive",
};

/** What a stack may have instead of what `dev` and `prod` have here. */
const choices = {
  live: "false",
  database: "sqlserver",
  vpcEndpoints: "existing",
  egressCidr: "0.0.0.0/0",
  logEncryption: "key",
  tenants: "secrets",
  wakeUp: "invoke",
  recoverGithub: "true",
  githubHooks: "acme/shop:123456789",
  migrate: "true",
  databaseUrl: "mssql://orders.abc.eu-central-1.rds.amazonaws.com/orders",
  ownerSecretArn: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:rds!db-1-AbCdEf",
};

describe("the deployment to AWS", () => {
  let project: AwsProject;
  let dev: { file: string; json: Template };
  let prod: { file: string; json: Template };
  let withService: { file: string; json: Template };
  let withAdmin: { file: string; json: Template };
  let withMessaging: { file: string; json: Template };
  let otherChoices: { file: string; json: Template };

  beforeAll(async () => {
    project = await packageForAws(appName);
    dev = await project.template("dev"); // one after the other: the tool keeps its state in the folder
    prod = await project.template("prod", inVpc);
    withService = await project.template("dev", { service: "true" });
    withAdmin = await project.template("dev", { admin: "true" });
    const { messaging, shopAddress } = inVpc;
    withMessaging = await project.template("dev", { messaging, shopAddress });
    otherChoices = await project.template("prod", { ...inVpc, ...choices });
  }, 300_000);
  afterAll(() => project?.remove());

  const resources = (type: string, { json } = dev): [string, Resource][] =>
    Object.entries(json.Resources).filter(([, { Type }]) => Type === type);
  const properties = (name: string) => dev.json.Resources[name]!.Properties;

  describeChoices(() => ({ dev, prod, otherChoices }));
  describePolicies(() => ({ dev, prod, withService, withAdmin, withMessaging, otherChoices }));
  describeMessaging(() => ({ dev, prod, withMessaging, otherChoices }));

  it("FUN-10 AWS's own rules find no error in any of the stacks", () => {
    const engine = new RegoEngine();
    try {
      for (const { file } of [dev, prod, otherChoices]) {
        const { diagnostics } = engine.validateStandard(new TemplateFile(file));
        const serious = diagnostics.filter(({ severity }) => severity !== "INFO");
        // W3005: the tool repeats dependencies. W8003: parameters are known when the stack is made.
        expect(serious.filter(({ ruleId }) => ruleId !== "W3005" && ruleId !== "W8003")).toEqual([]);
        expect(diagnostics.length).toBeGreaterThan(0);
      }
    } finally {
      engine.free();
    }
  });

  it("FUN-09 FUN-10 every function of every stack has its archive, for each database", async () => {
    const out = await mkdtemp(join(project.folder, "archives-"));
    await packageFunctions({
      cloud: "aws",
      database: ["sqlserver", "postgres"],
      folder: root,
      outFolder: out,
      service: true,
      admin: true,
      messaging: true,
      recover: true,
    });
    const made = async (folder: string) =>
      (await readdir(folder)).filter((name) => name.endsWith(".zip")).sort();
    expect(await made(out)).toEqual(await made(join(project.folder, "build/aws")));
    const archives = (stack: typeof dev) =>
      resources("AWS::Lambda::Function", stack).map(
        ([, { Properties }]) => Properties.Code.S3Key.split("/").at(-1) as string,
      );
    for (const stack of [dev, prod, withService, withAdmin, withMessaging, otherChoices])
      expect(await made(out)).toEqual(expect.arrayContaining(archives(stack)));
    expect(archives(otherChoices).sort()).toEqual(await made(out)); // this one has them all
    const scripts = Object.keys(unzipSync(await readFile(join(out, "migrate.zip"))));
    expect(scripts).toEqual(
      expect.arrayContaining(["migrate.users-postgres.sql", "migrate.users-sqlserver.sql"]),
    );
  });

  it("FUN-08 FUN-10 with a catalogue of tenants the migration may fill its secret, and no other function may", async () => {
    const { databaseUrl: _, ...rest } = choices;
    const params = { ...rest, databaseUrl: "postgres://db.example/orders", database: "postgres" };
    const { file, json } = await project.template("dev", { ...params, tenants: "catalogue" });
    expect(json.Resources.MigrateCataloguePolicy!.Properties).toMatchObject({
      Roles: [{ Ref: "MigrateRole" }],
      PolicyDocument: {
        Statement: [
          {
            Action: ["DescribeSecret", "GetSecretValue", "PutSecretValue"].map(
              (one) => `secretsmanager:${one}`,
            ),
            Resource: { Ref: "CatalogueSecret" },
          },
        ],
      },
    });
    const writers = Object.entries(json.Resources).filter(([, one]) =>
      JSON.stringify(one).includes("secretsmanager:PutSecretValue"),
    );
    expect(writers.map(([name]) => name).sort()).toEqual(["MigrateCataloguePolicy", "MigrateRole"]);
    const { Variables } = json.Resources.MigrateLambdaFunction!.Properties.Environment;
    expect(Variables.ONCEBOX_CATALOGUE_SECRET).toBe(json.Resources.CatalogueSecret!.Properties.Name);
    const engine = new RegoEngine();
    const { diagnostics } = engine.validateStandard(new TemplateFile(file));
    engine.free();
    expect(diagnostics.filter(({ severity }) => severity === "ERROR" || severity === "FATAL")).toEqual([]);
  });

  it("FUN-10 what the stack leaves behind can be imported with the guide's program and names", async () => {
    const guide = await readFile(join(root, "docs/deploy-aws.md"), "utf8");
    const [, program = ""] = /--query TemplateBody > stack\.json\nnode -e '\n([\s\S]*?)' > import\.json/.exec(
      guide,
    )!;
    const folder = await mkdtemp(join(project.folder, "import-"));
    await cp(dirname(dev.file), join(folder, ".serverless"), { recursive: true });
    await cp(
      join(dirname(dev.file), "cloudformation-template-create-stack.json"),
      join(folder, "stack.json"),
    );
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", program], { cwd: folder });
    const file = join(folder, "import.json");
    await writeFile(file, stdout);
    const imported = JSON.parse(stdout) as Template;
    const kept = Object.entries(dev.json.Resources).filter(
      ([, { DeletionPolicy: policy }]) => policy !== undefined,
    );
    const [, list = ""] = /--resources-to-import '(\[[\s\S]*?\])'/.exec(guide)!;
    const named = JSON.parse(list) as readonly ResourceToImport[];
    expect(named.map(({ LogicalResourceId }) => LogicalResourceId).sort()).toEqual(
      kept.map(([name]) => name).sort(),
    );
    const specification = loadAwsServiceSpecSync();
    for (const { ResourceType, LogicalResourceId, ResourceIdentifier } of named) {
      const { Type, DeletionPolicy } = imported.Resources[LogicalResourceId]!;
      expect([Type, DeletionPolicy]).toEqual([ResourceType, "RetainExceptOnCreate"]); // an import needs a policy
      const found = specification.lookup("resource", "cloudFormationType", "equals", ResourceType).only();
      expect(Object.keys(ResourceIdentifier)).toEqual(found.primaryIdentifier);
    }
    // Nothing that is there is changed, and what is added refers to nothing that is not.
    const before = JSON.parse(await readFile(join(folder, "stack.json"), "utf8")) as Template;
    expect({ ...imported, Resources: undefined }).toEqual({ ...before, Resources: undefined });
    expect(imported.Resources).toMatchObject(before.Resources);
    const engine = new RegoEngine();
    const { diagnostics } = engine.validateStandard(new TemplateFile(file));
    engine.free();
    expect(diagnostics.filter(({ severity }) => severity === "ERROR" || severity === "FATAL")).toEqual([]);
  });

  it("FUN-10 its resource types and attributes are in AWS's resource specification", () => {
    const specification = loadAwsServiceSpecSync();
    const attributes = (type: string) =>
      Object.keys(specification.lookup("resource", "cloudFormationType", "equals", type).only().attributes);
    for (const { json } of [dev, prod, withService, withAdmin, withMessaging, otherChoices]) {
      const text = JSON.stringify(json);
      const used = [...text.matchAll(/"Fn::GetAtt":\["(\w+)","([\w.]+)"\]/g)];
      expect(used.length).toBeGreaterThan(30);
      for (const [, name, attribute] of used)
        expect([name, ...attributes(json.Resources[name!]!.Type)]).toContain(attribute);
    }
  });

  it("FUN-10 its names start with the app's, so that two apps in one account share nothing", () => {
    for (const name of functionNames) {
      expect(properties(`${name}LambdaFunction`).FunctionName).toBe(`${appName}-dev-${name.toLowerCase()}`);
    }
    for (const [, { Properties }] of resources("AWS::SecretsManager::Secret", prod)) {
      expect(Properties.Name).toMatch(new RegExp(`^${appName}/prod/`));
    }
  });

  const schedules = (stack: { file: string; json: Template }): Record<string, string> =>
    Object.fromEntries(
      resources("AWS::Events::Rule", stack).map(([, { Properties }]) => [
        Properties.Targets[0].Arn["Fn::GetAtt"][0],
        Properties.ScheduleExpression,
      ]),
    );

  it("FUN-04 FUN-10 reapMinutes sets the schedule of reap and the period of the alarm on old messages", async () => {
    expect(properties("OldestAgeAlarm").Period).toBe(60);
    expect(schedules(prod).ReapLambdaFunction).toBe("rate(10 minutes)");
    expect(prod.json.Resources.OldestAgeAlarm!.Properties.Period).toBe(600);
    // CloudFormation would take it and EventBridge refuse it, or the alarm be always on: it is refused before.
    const refused = project.template("dev", { reapMinutes: "7", service: "yes" });
    await expect(refused).rejects.toThrow();
    const { stdout, stderr } = await refused.catch((error) => error);
    expect(stdout + stderr).toContain("functions.reap.events");
    expect(stdout + stderr).toContain("custom.inboxService"); // and a service that is neither true nor false
  });

  it("ADD-02 FUN-10 deadRetentionDays reaches the functions that clean up; dead messages are kept by default", async () => {
    for (const name of ["Cleanup", "Dispatch"]) {
      const variables = (stack: typeof dev) =>
        stack.json.Resources[`${name}LambdaFunction`]!.Properties.Environment.Variables;
      const { ONCEBOX_DEAD_RETENTION_DAYS: days } = variables(dev);
      expect((await readEnvironment({ ONCEBOX_DEAD_RETENTION_DAYS: days })).deadRetentionMs).toBeUndefined();
      expect(variables(prod).ONCEBOX_DEAD_RETENTION_DAYS).toBe("90");
    }
  });

  it("FUN-10 every function has its trigger: HTTP, schedules, and the queues for wake-ups and for what others send", () => {
    expect(resources("AWS::Lambda::Function").map(([name]) => name)).toEqual(
      functionNames.map((name) => `${name}LambdaFunction`),
    );
    const routes = resources("AWS::ApiGatewayV2::Route").map(([, { Properties }]) => Properties);
    expect(routes.map(({ RouteKey }) => RouteKey).sort()).toEqual([
      "ANY /webhooks/{source}",
      "ANY /webhooks/{source}/{tenant}",
    ]);
    expect(new Set(routes.map(({ Target }) => JSON.stringify(Target))).size).toBe(1);
    expect(properties("HttpApiIntegrationWebhook").PayloadFormatVersion).toBe("2.0");
    expect(schedules(dev)).toEqual({
      DispatchLambdaFunction: "rate(1 minute)",
      ReapLambdaFunction: "rate(1 minute)",
      CleanupLambdaFunction: "rate(1 hour)",
    });
    const mappings = resources("AWS::Lambda::EventSourceMapping").map(([, { Properties }]) => Properties);
    const mapping = (queue: string, name: string) =>
      expect.objectContaining({
        EventSourceArn: { "Fn::GetAtt": [queue, "Arn"] },
        FunctionName: { "Fn::GetAtt": [`${name}LambdaFunction`, "Arn"] },
        FunctionResponseTypes: ["ReportBatchItemFailures"],
      });
    expect(mappings).toEqual([mapping("IncomingQueue", "Consume"), mapping("WakeUpQueue", "Dispatch")]);
    for (const name of ["Webhook", "Consume", "Dispatch"]) {
      const { Variables } = properties(`${name}LambdaFunction`).Environment;
      expect(Variables.ONCEBOX_WAKE_QUEUE_URL).toEqual({ Ref: "WakeUpQueue" });
    }
  });

  it("FUN-10 every function has a role of its own, and no role has an action or a resource with a wildcard", () => {
    const roles = resources("AWS::IAM::Role").map(([name]) => name);
    expect(roles).toEqual(functionNames.map((name) => `${name}Role`));
    for (const name of functionNames) {
      expect(properties(`${name}LambdaFunction`).Role).toEqual({ "Fn::GetAtt": [`${name}Role`, "Arn"] });
    }
    const statements = resources("AWS::IAM::Role").flatMap(([, { Properties }]) => {
      expect(Properties.ManagedPolicyArns).toBeUndefined();
      return Properties.Policies.flatMap(
        (policy: { PolicyDocument: { Statement: Statement[] } }) => policy.PolicyDocument.Statement,
      ) as Statement[];
    });
    expect(statements.length).toBeGreaterThan(8);
    expect(JSON.stringify(statements)).not.toContain("*");
    for (const { Resource: resource } of statements) {
      for (const one of [resource].flat()) expect(one).toSatisfy(isNamed);
    }
    const actionsOf = (name: string) =>
      (properties(name).Policies[0].PolicyDocument.Statement as Statement[]).flatMap(({ Action }) => Action);
    expect(actionsOf("ReapRole")).toEqual([
      "logs:CreateLogStream",
      "logs:PutLogEvents",
      "secretsmanager:GetSecretValue",
      "kms:Decrypt",
    ]);
    expect(actionsOf("WebhookRole")).not.toContain("sqs:ReceiveMessage");
    const queuesOf = (name: string) =>
      (properties(name).Policies[0].PolicyDocument.Statement as Statement[])
        .filter(({ Action }) => String(Action).includes("sqs:"))
        .map(({ Action, Resource: resource }) => [
          (resource as { "Fn::GetAtt": string[] })["Fn::GetAtt"][0],
          Action,
        ]);
    expect(queuesOf("ConsumeRole")).toEqual([
      ["IncomingQueue", ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]],
      ["WakeUpQueue", "sqs:SendMessage"],
    ]);
  });

  /** A reference to a resource of this stack. */
  const isNamed = (resource: Record<string, unknown>): boolean => {
    const [name] = [resource.Ref ?? resource["Fn::GetAtt"]].flat();
    return dev.json.Resources[String(name)] !== undefined;
  };

  it("FUN-10 only in a VPC functions may make network interfaces, which have no names before they are made", () => {
    expect(resources("AWS::IAM::ManagedPolicy")).toEqual([]);
    const [{ Action }, denied] = prod.json.Resources.NetworkPolicy!.Properties.PolicyDocument.Statement;
    // Only Lambda itself: the functions' code is denied what their roles allow.
    expect(denied).toMatchObject({ Effect: "Deny", Action, Resource: "*" });
    const code = denied.Condition.ArnEquals["lambda:SourceFunctionArn"] as { "Fn::Sub": string }[];
    expect(code.map((arn) => arn["Fn::Sub"].split(":").at(-1))).toEqual(
      functionNames.map((name) => prod.json.Resources[`${name}LambdaFunction`]!.Properties.FunctionName),
    );
    expect(
      Action.every((action: string) => /^ec2:\w+(NetworkInterfaces?|Subnets|IpAddresses)$/.test(action)),
    ).toBe(true);
    for (const name of functionNames) {
      const { Properties, DependsOn } = prod.json.Resources[`${name}LambdaFunction`]!;
      expect(Properties.VpcConfig.SubnetIds).toEqual({ "Fn::Split": [",", inVpc.subnetIds] });
      expect(DependsOn).toContain("NetworkPolicy");
      expect(properties(`${name}LambdaFunction`).VpcConfig).toBeUndefined();
    }
  });

  it("FUN-07 FUN-10 with a catalogue of tenants reap and cleanup may send tenant batches, and workers' lines raise the alarm", () => {
    for (const name of ["Reap", "Cleanup"]) {
      const { Environment: environment } = properties(`${name}LambdaFunction`);
      expect(environment.Variables.ONCEBOX_WAKE_QUEUE_URL).toEqual({ Ref: "WakeUpQueue" });
    }
    const { Roles: roles, PolicyDocument: policy } = prod.json.Resources.TenantBatchPolicy!.Properties;
    expect(roles).toEqual([{ Ref: "ReapRole" }, { Ref: "CleanupRole" }]);
    expect(policy.Statement).toEqual([
      { Effect: "Allow", Action: "sqs:SendMessage", Resource: { "Fn::GetAtt": ["WakeUpQueue", "Arn"] } },
    ]);
    const [own, workers] = ["OldestAge", "OldestAgeOfTenantBatches"].map(
      (name) => prod.json.Resources[name]!.Properties,
    );
    expect(workers).toEqual({ ...own, LogGroupName: { Ref: "DispatchLogGroup" } });
  });

  it("FUN-08 FUN-10 with a catalogue of tenants every function knows the secret's name, and may read it", () => {
    const { Roles, PolicyDocument } = prod.json.Resources.CataloguePolicy!.Properties;
    // But the consumer: its messages are no tenant's.
    const names = functionNames.filter((name) => name !== "Consume");
    expect(Roles).toEqual(names.map((name) => ({ Ref: `${name}Role` })));
    expect(PolicyDocument.Statement).toEqual([
      { Effect: "Allow", Action: "secretsmanager:GetSecretValue", Resource: { Ref: "CatalogueSecret" } },
    ]);
    for (const name of functionNames) {
      const { Variables } = prod.json.Resources[`${name}LambdaFunction`]!.Properties.Environment;
      expect(Variables.CATALOGUE_SECRET).toBe(prod.json.Resources.CatalogueSecret!.Properties.Name);
    }
    expect(dev.json.Resources.CatalogueSecret).toBeUndefined();
  });

  it("FUN-10 secrets outlive the stack, and so does their key", () => {
    for (const stack of [prod, otherChoices]) {
      for (const [name, { DeletionPolicy, UpdateReplacePolicy }] of [
        ...resources("AWS::SecretsManager::Secret", stack),
        ...resources("AWS::KMS::Key", stack),
      ]) {
        // But those of a first deployment that failed: their names would refuse the second one.
        const kept = { DeletionPolicy: "RetainExceptOnCreate", UpdateReplacePolicy: "Retain" };
        expect({ name, DeletionPolicy, UpdateReplacePolicy }).toEqual({ name, ...kept });
      }
    }
  });

  it("FUN-10 every queue has its dead letters, whose depth raises an alarm", () => {
    const queues = resources("AWS::SQS::Queue");
    const deadLetters = queues.flatMap(
      ([, { Properties }]) => Properties.RedrivePolicy?.deadLetterTargetArn["Fn::GetAtt"][0] ?? [],
    );
    expect(queues.map(([name]) => name).filter((name) => !deadLetters.includes(name))).toEqual([
      "IncomingQueue",
      "WakeUpQueue",
    ]);
    const watched = resources("AWS::CloudWatch::Alarm").map(
      ([, { Properties }]) => Properties.Dimensions?.[0].Value["Fn::GetAtt"]?.[0],
    );
    expect(watched).toEqual(expect.arrayContaining(deadLetters));
  });

  it("FUN-10 queues, secrets, alarms and archives are encrypted, and no secret is in the template", () => {
    for (const [, { Properties }] of resources("AWS::SQS::Queue")) {
      expect(Properties.SqsManagedSseEnabled).toBe(true);
    }
    for (const [, { Properties }] of resources("AWS::SecretsManager::Secret")) {
      expect(Properties.KmsKeyId).toEqual({ "Fn::GetAtt": ["EncryptionKey", "Arn"] });
      expect(Properties.SecretString ?? Properties.GenerateSecretString).toBeUndefined();
    }
    expect(properties("EncryptionKey").EnableKeyRotation).toBe(true);
    expect(properties("AlarmTopic").KmsMasterKeyId).toEqual({ Ref: "EncryptionKey" });
    expect(properties("ServerlessDeploymentBucket").BucketEncryption).toBeDefined();
    for (const name of functionNames) {
      const { Variables } = properties(`${name}LambdaFunction`).Environment;
      expect(Variables.ONCEBOX_DATABASE_URL["Fn::Sub"]).toContain('"from":"aws-secrets-manager"');
    }
  });

  it("FUN-03 FUN-10 Lambda lets a dispatcher wake its successor by the queue that started it, also in a VPC", () => {
    for (const { json } of [dev, prod]) {
      expect(json.Resources.DispatchLambdaFunction!.Properties.RecursiveLoop).toBe("Allow");
      expect(json.Resources.ReapLambdaFunction!.Properties.RecursiveLoop).toBeUndefined();
    }
  });

  it("FUN-10 concurrency is reserved and logs end, by stage", () => {
    for (const { json } of [dev, prod]) {
      for (const [, { Properties }] of resources("AWS::Lambda::Function", { file: "", json })) {
        expect(Properties.ReservedConcurrentExecutions).toBeGreaterThan(0);
      }
    }
    const days = ({ json }: { json: Template }) =>
      new Set(
        resources("AWS::Logs::LogGroup", { file: "", json }).map(
          ([, { Properties }]) => Properties.RetentionInDays,
        ),
      );
    expect([...days(dev)]).toEqual([14]);
    expect([...days(prod)]).toEqual([90]);
  });

  it("FUN-10 alarms on dead letters, the oldest age, errors and throttles of every function notify the topic", () => {
    const alarms = resources("AWS::CloudWatch::Alarm");
    for (const [, { Properties }] of alarms) expect(Properties.AlarmActions).toEqual([{ Ref: "AlarmTopic" }]);
    const watched = alarms.map(
      ([
        ,
        {
          Properties: { MetricName, Dimensions },
        },
      ]) => [MetricName, Dimensions?.[0].Value.Ref].filter(Boolean).join(" "),
    );
    for (const name of functionNames) {
      expect(watched).toContain(`Errors ${name}LambdaFunction`);
      expect(watched).toContain(`Throttles ${name}LambdaFunction`);
    }
    // Lambda repeats a schedule's refused event after 1, 2, 4 … s: the alarm must report a single one that never starts a function.
    for (const name of ["Reap", "Cleanup"]) {
      const { Period, EvaluationPeriods, Threshold } = properties(`${name}ThrottlesAlarm`);
      const { MaximumEventAgeInSeconds } = properties(`${name}LambdaEvConf`);
      const attempts = Math.floor(Math.log2(Math.min(Period, MaximumEventAgeInSeconds))) + 1;
      expect([EvaluationPeriods, Threshold < attempts], name).toEqual([1, true]);
    }
    expect(watched).toEqual(expect.arrayContaining(["DeadLetters", "OldestAgeMs"]));
    expect(properties("OldestAgeAlarm").TreatMissingData).toBe("breaching");
    // What the alarms count comes from lines of the log; test/unit/app/queue-health.test.ts shows that they are written.
    const filters = resources("AWS::Logs::MetricFilter").map(([, { Properties }]) => [
      Properties.LogGroupName.Ref,
      Properties.FilterPattern,
      Properties.MetricTransformations[0].MetricValue,
    ]);
    expect(filters).toEqual([
      ["DispatchLogGroup", '{ $.message = "message is dead" }', "1"],
      ["ReapLogGroup", '{ $.message = "message is dead" }', "1"],
      ["ReapLogGroup", '{ $.message = "queue" }', "$.oldestDueAgeMs"],
    ]);
    expect(resources("AWS::SNS::Subscription", prod)[0]![1].Properties.Endpoint).toBe("ops@example.com");
  });

  describe("with service=true", () => {
    const added = () =>
      Object.keys(withService.json.Resources).filter((name) => !(name in dev.json.Resources));
    const serviceProperties = (name: string, { json } = withService) => json.Resources[name]!.Properties;
    const statementsOf = (name: string, stack = withService): Statement[] =>
      serviceProperties(name, stack).Policies[0].PolicyDocument.Statement;

    it("SVC-03 FUN-10 the inbox service is added, and nothing that was there is changed", () => {
      const place = /serverless\/orders\/dev\/[^/]+/g; // every deployment has its own, by its time
      const text = (resources: object) => JSON.stringify(resources, null, 1).replace(place, "");
      const kept = Object.entries(withService.json.Resources).filter(([name]) => name in dev.json.Resources);
      expect(text(Object.fromEntries(kept))).toBe(text(dev.json.Resources));
      expect(added().sort()).toEqual([
        "HttpApiIntegrationInboxService",
        "HttpApiRouteAnyV1InboxPathVar",
        "HttpApiRouteAnyV1Openapijson",
        "InboxServiceErrorsAlarm",
        "InboxServiceFailures",
        "InboxServiceFailuresAlarm",
        "InboxServiceLambdaFunction",
        "InboxServiceLambdaPermissionHttpApi",
        "InboxServiceLogGroup",
        "InboxServiceRole",
        "InboxServiceSlowAlarm",
        "InboxServiceThrottlesAlarm",
        "InboxServiceTokensSecret",
      ]);
      expect(JSON.stringify(dev.json)).not.toMatch(/inbox-?service/i);
    });

    it("SVC-03 SVC-06 FUN-10 all of its paths lead to its function, and only by TLS", () => {
      const routes = added().filter((name) => name.startsWith("HttpApiRoute"));
      expect(routes.map((name) => serviceProperties(name).RouteKey)).toEqual([
        "ANY /v1/inbox/{path+}",
        "ANY /v1/openapi.json",
      ]);
      for (const name of routes) {
        expect(JSON.stringify(serviceProperties(name).Target)).toContain("HttpApiIntegrationInboxService");
      }
      expect(serviceProperties("HttpApiIntegrationInboxService")).toMatchObject({
        IntegrationUri: { "Fn::GetAtt": ["InboxServiceLambdaFunction", "Arn"] },
        PayloadFormatVersion: "2.0",
      });
      // The API's own host takes only HTTPS, from TLS 1.2. Another would need a domain name, and there is none.
      expect(serviceProperties("HttpApi").ProtocolType).toBe("HTTP");
      expect(resources("AWS::ApiGatewayV2::DomainName", withService)).toEqual([]);
    });

    it("SVC-07 FUN-10 its role may write its log and read two secrets, and nothing else", () => {
      for (const stack of [withService, prod]) {
        const { Role, FunctionName } = serviceProperties("InboxServiceLambdaFunction", stack);
        expect(Role).toEqual({ "Fn::GetAtt": ["InboxServiceRole", "Arn"] });
        expect(FunctionName).toMatch(/^orders-(dev|prod)-inbox-service$/);
        expect(serviceProperties("InboxServiceRole", stack).ManagedPolicyArns).toBeUndefined();
        expect(
          statementsOf("InboxServiceRole", stack).map(({ Action, Resource: to }) => [Action, to]),
        ).toEqual([
          [["logs:CreateLogStream", "logs:PutLogEvents"], { "Fn::GetAtt": ["InboxServiceLogGroup", "Arn"] }],
          [
            "secretsmanager:GetSecretValue",
            [{ Ref: "DatabaseUrlSecret" }, { Ref: "InboxServiceTokensSecret" }],
          ],
          ["kms:Decrypt", { "Fn::GetAtt": ["EncryptionKey", "Arn"] }],
        ]);
      }
      // No other role may read the tokens.
      const readers = resources("AWS::IAM::Role", withService).filter(([, role]) =>
        JSON.stringify(role).includes("InboxServiceTokensSecret"),
      );
      expect(readers.map(([name]) => name)).toEqual(["InboxServiceRole"]);
    });

    it("SVC-07 FUN-10 its tokens are in a secret without a value, which the function finds by the name that it reads", async () => {
      const { KmsKeyId, SecretString, GenerateSecretString, Name } =
        serviceProperties("InboxServiceTokensSecret");
      expect(KmsKeyId).toEqual({ "Fn::GetAtt": ["EncryptionKey", "Arn"] });
      expect(SecretString ?? GenerateSecretString).toBeUndefined();
      expect(Name).toBe("orders/dev/inbox-service-tokens");
      const { Variables } = serviceProperties("InboxServiceLambdaFunction").Environment;
      const reference = JSON.parse(Variables.INBOX_SERVICE_TOKENS["Fn::Sub"]);
      expect(reference).toEqual({
        from: "aws-secrets-manager",
        id: expect.stringContaining("{InboxServiceTokensSecret}"),
      });
      expect(isSecretReference(reference)).toBe(true);
      for (const name of functionNames) {
        const others = withService.json.Resources[`${name}LambdaFunction`]!.Properties.Environment.Variables;
        expect(others.INBOX_SERVICE_TOKENS).toBeUndefined();
      }
    });

    it("SVC-08 FUN-10 its time-out is below the gateway's and the shortest lease, and an alarm comes before it", () => {
      const { Timeout } = serviceProperties("InboxServiceLambdaFunction");
      const { TimeoutInMillis } = serviceProperties("HttpApiIntegrationInboxService");
      expect(Timeout * 1_000).toBeLessThan(TimeoutInMillis);
      expect(Timeout).toBeLessThan(inboxServiceDefaults.minLeaseSeconds);
      // The tokens are fetched, then the database is asked. What takes longer is answered 503, and not cut off.
      expect(Timeout * 1_000).toBeGreaterThanOrEqual(2 * inboxServiceDefaults.callMs);
      const { Threshold } = serviceProperties("InboxServiceSlowAlarm");
      expect(Threshold).toBeLessThan(Timeout * 1_000);
      expect(Threshold).toBeGreaterThan(Timeout * 500);
    });

    it("FUN-10 its concurrency is reserved and its log ends, by stage", () => {
      const limits = (stack: typeof dev) => [
        serviceProperties("InboxServiceLambdaFunction", stack).ReservedConcurrentExecutions,
        serviceProperties("InboxServiceLogGroup", stack).RetentionInDays,
      ];
      expect(limits(withService)).toEqual([5, 14]);
      expect(limits(prod)).toEqual([20, 90]);
    });

    it("FUN-10 alarms on its errors, throttles, duration and answers 5xx notify the topic", () => {
      const names = added().filter((name) => name.endsWith("Alarm"));
      const watched = names.map((name) => {
        const { MetricName, Dimensions, AlarmActions, TreatMissingData } = serviceProperties(name);
        expect({ AlarmActions, TreatMissingData }).toEqual({
          AlarmActions: [{ Ref: "AlarmTopic" }],
          TreatMissingData: "notBreaching", // nobody may be asking
        });
        return [MetricName, Dimensions?.[0].Value.Ref];
      });
      expect(watched).toEqual([
        ["Errors", "InboxServiceLambdaFunction"],
        ["Throttles", "InboxServiceLambdaFunction"],
        ["Duration", "InboxServiceLambdaFunction"],
        ["InboxServiceFailures", undefined],
      ]);
      // The last one's numbers come from the gateway's access log, which has both fields as texts.
      const { LogGroupName, FilterPattern, MetricTransformations } =
        serviceProperties("InboxServiceFailures");
      expect(LogGroupName).toEqual({ Ref: "HttpApiLogGroup" });
      expect(MetricTransformations[0]).toMatchObject({
        MetricName: "InboxServiceFailures",
        MetricNamespace: serviceProperties("InboxServiceFailuresAlarm").Namespace,
      });
      expect(FilterPattern).toBe('{ $.path = "/v1/*" && $.status = "5*" }');
      const line = JSON.parse(serviceProperties("HttpApiStage").AccessLogSettings.Format);
      expect(line).toMatchObject({ path: "$context.path", status: "$context.status" });
    });

    it("FUN-10 in a VPC it is in the same subnets, and only Lambda may make its network interfaces", () => {
      const { Properties, DependsOn } = prod.json.Resources.InboxServiceLambdaFunction!;
      expect(Properties.VpcConfig).toEqual(prod.json.Resources.WebhookLambdaFunction!.Properties.VpcConfig);
      expect(DependsOn).toContain("InboxServiceNetworkPolicy");
      const { Roles, PolicyDocument } = prod.json.Resources.InboxServiceNetworkPolicy!.Properties;
      expect(Roles).toEqual([{ Ref: "InboxServiceRole" }]);
      const [allowed, denied] = PolicyDocument.Statement;
      const [others] = prod.json.Resources.NetworkPolicy!.Properties.PolicyDocument.Statement;
      expect(allowed).toEqual(others);
      expect(denied).toMatchObject({ Effect: "Deny", Action: allowed.Action, Resource: "*" });
      const [code] = denied.Condition.ArnEquals["lambda:SourceFunctionArn"];
      expect(code["Fn::Sub"].split(":").at(-1)).toBe(Properties.FunctionName);
      expect(serviceProperties("InboxServiceLambdaFunction").VpcConfig).toBeUndefined();
    });
  });

  describe("with admin=true", () => {
    const added = () => Object.keys(withAdmin.json.Resources).filter((name) => !(name in dev.json.Resources));
    const adminProperties = (name: string, { json } = withAdmin) => json.Resources[name]!.Properties;

    it("MSG-14 FUN-10 the diagnostics API is added, and nothing is changed but the throttling of its routes", () => {
      const place = /serverless\/orders\/dev\/[^/]+/g; // every deployment has its own, by its time
      const text = (resources: object) => JSON.stringify(resources, null, 1).replace(place, "");
      const { HttpApiStage: stage, ...kept } = withAdmin.json.Resources;
      const { HttpApiStage: before, ...others } = dev.json.Resources;
      const same = Object.entries(kept).filter(([name]) => name in dev.json.Resources);
      expect(text(Object.fromEntries(same))).toBe(text(others));
      const { RouteSettings, ...settings } = stage!.Properties;
      const { RouteSettings: webhookRoutes, ...settingsBefore } = before!.Properties;
      expect(settings).toEqual(settingsBefore);
      const throttle = { ThrottlingRateLimit: 20, ThrottlingBurstLimit: 40 };
      const routes = added().filter((name) => name.startsWith("HttpApiRoute"));
      const keys = routes.map((name) => adminProperties(name).RouteKey);
      expect(keys).toEqual(["ANY /_oncebox", "ANY /_oncebox/{path+}"]);
      const own = Object.fromEntries(keys.map((key) => [key, throttle]));
      expect(RouteSettings).toEqual({ ...webhookRoutes, ...own });
      // A stage cannot have settings of a route that is not there yet.
      expect(stage!.DependsOn).toEqual(expect.arrayContaining([...before!.DependsOn!, ...routes]));
      for (const name of routes)
        expect(JSON.stringify(adminProperties(name).Target)).toContain("HttpApiIntegrationAdmin");
      expect(added().sort()).toEqual([
        "AdminDatabaseUrlSecret",
        "AdminErrorsAlarm",
        "AdminFailures",
        "AdminFailuresAlarm",
        "AdminLambdaFunction",
        "AdminLambdaPermissionHttpApi",
        "AdminLogGroup",
        "AdminRole",
        "AdminTokensSecret",
        "HttpApiIntegrationAdmin",
        ...routes.sort(),
      ]);
      expect(JSON.stringify(dev.json)).not.toMatch(/admin-tokens|_oncebox/);
    });

    it("MSG-14 FUN-10 its role may write its log and read its two secrets, which are empty and which no other role may read", () => {
      for (const stack of [withAdmin, prod]) {
        const { Statement: statements } = adminProperties("AdminRole", stack).Policies[0].PolicyDocument;
        expect((statements as Statement[]).map(({ Action, Resource: to }) => [Action, to])).toEqual([
          [["logs:CreateLogStream", "logs:PutLogEvents"], { "Fn::GetAtt": ["AdminLogGroup", "Arn"] }],
          [
            "secretsmanager:GetSecretValue",
            [{ Ref: "AdminDatabaseUrlSecret" }, { Ref: "AdminTokensSecret" }],
          ],
          ["kms:Decrypt", { "Fn::GetAtt": ["EncryptionKey", "Arn"] }],
        ]);
        const readers = resources("AWS::IAM::Role", stack).filter(([, role]) =>
          /Admin(Tokens|DatabaseUrl)Secret/.test(JSON.stringify(role)),
        );
        expect(readers.map(([name]) => name)).toEqual(["AdminRole"]);
      }
      const { Variables } = adminProperties("AdminLambdaFunction").Environment;
      for (const [variable, secret] of [
        ["ONCEBOX_ADMIN_TOKENS", "AdminTokensSecret"],
        ["ONCEBOX_DATABASE_URL", "AdminDatabaseUrlSecret"],
      ] as const) {
        const { KmsKeyId, SecretString, GenerateSecretString } = adminProperties(secret);
        expect(KmsKeyId).toEqual({ "Fn::GetAtt": ["EncryptionKey", "Arn"] });
        expect(SecretString ?? GenerateSecretString).toBeUndefined();
        const reference = JSON.parse(Variables[variable]["Fn::Sub"]);
        expect(reference.id).toContain(`{${secret}}`);
        expect(isSecretReference(reference)).toBe(true);
      }
    });

    it("MSG-14 FUN-10 its time-out is below the gateway's, and secret store and database have theirs before it", () => {
      const { Timeout, ReservedConcurrentExecutions } = adminProperties("AdminLambdaFunction");
      expect(Timeout * 1_000).toBeLessThan(adminProperties("HttpApiIntegrationAdmin").TimeoutInMillis);
      expect(Timeout * 1_000).toBeGreaterThanOrEqual(2 * adminDefaults.callMs);
      expect(ReservedConcurrentExecutions).toBe(2);
      for (const name of ["AdminErrorsAlarm", "AdminFailuresAlarm"])
        expect(adminProperties(name).AlarmActions).toEqual([{ Ref: "AlarmTopic" }]);
    });

    it("FUN-10 in a VPC and with a catalogue of tenants it has what the other functions have", () => {
      const { Properties, DependsOn } = prod.json.Resources.AdminLambdaFunction!;
      expect(Properties.VpcConfig).toEqual(prod.json.Resources.WebhookLambdaFunction!.Properties.VpcConfig);
      expect(DependsOn).toContain("AdminNetworkPolicy");
      const [allowed, denied] = adminProperties("AdminNetworkPolicy", prod).PolicyDocument.Statement;
      const [others] = prod.json.Resources.NetworkPolicy!.Properties.PolicyDocument.Statement;
      expect(allowed).toEqual(others);
      const [code] = denied.Condition.ArnEquals["lambda:SourceFunctionArn"];
      expect(code["Fn::Sub"].split(":").at(-1)).toBe(Properties.FunctionName);
      const { Roles, PolicyDocument } = adminProperties("AdminCataloguePolicy", prod);
      expect(Roles).toEqual([{ Ref: "AdminRole" }]);
      expect(PolicyDocument).toEqual(adminProperties("CataloguePolicy", prod).PolicyDocument);
    });
  });

  describe("with recoverGithub=true", () => {
    it("FUN-10 FUN-12 each quarter of an hour a function asks GitHub, with a token that no other role may read", async () => {
      const { Resources } = otherChoices.json;
      const schedules = resources("AWS::Events::Rule", otherChoices).filter(([name]) =>
        name.startsWith("RecoverGithub"),
      );
      expect(
        schedules.map(([, { Properties }]) => [Properties.ScheduleExpression, Properties.State]),
      ).toEqual([
        ["rate(15 minutes)", "DISABLED"], // live=false, in this stack
      ]);
      const { Properties: made } = Resources.RecoverGithubLambdaFunction!;
      expect(made.VpcConfig).toBeUndefined(); // GitHub is outside, and there is no database
      const { Variables } = made.Environment;
      const reference = Variables.ONCEBOX_GITHUB_TOKEN["Fn::Sub"] as string;
      expect(readGithubRecovery({ ...Variables, ONCEBOX_GITHUB_TOKEN: reference })).toEqual({
        hooks: [{ repository: "acme/shop", hookId: "123456789" }],
        token: { from: "aws-secrets-manager", id: expect.stringContaining("{GithubTokenSecret}") },
      });
      const { Statement: statements } = Resources.RecoverGithubRole!.Properties.Policies[0].PolicyDocument;
      expect((statements as Statement[]).map(({ Action, Resource: to }) => [Action, to])).toEqual([
        [["logs:CreateLogStream", "logs:PutLogEvents"], { "Fn::GetAtt": ["RecoverGithubLogGroup", "Arn"] }],
        ["secretsmanager:GetSecretValue", { Ref: "GithubTokenSecret" }],
        ["kms:Decrypt", { "Fn::GetAtt": ["EncryptionKey", "Arn"] }],
      ]);
      const readers = resources("AWS::IAM::Role", otherChoices).filter(([, role]) =>
        JSON.stringify(role).includes("GithubTokenSecret"),
      );
      expect(readers.map(([name]) => name)).toEqual(["RecoverGithubRole"]);
      const { SecretString, GenerateSecretString } = Resources.GithubTokenSecret!.Properties;
      expect(SecretString ?? GenerateSecretString).toBeUndefined();
      expect(Resources.RecoverGithubErrorsAlarm!.Properties.AlarmActions).toEqual([{ Ref: "AlarmTopic" }]);
      for (const without of [dev, prod]) expect(JSON.stringify(without.json)).not.toMatch(/github/i);
    });

    it("FUN-10 FUN-12 its archive, unpacked with nothing beside it, asks for what failed under Amazon's runtime", async () => {
      const attempt = { guid: "one", status: 503, at: new Date(Date.now() - 3_600_000) };
      const token = "ghp_of-the-function";
      const hooks = { "/repos/acme/shop/hooks/123456789/deliveries": [attempt] };
      const github = await startGithubApi({ hooks, token, redeliveryStatus: 200 });
      const { Handler, Timeout, Environment } =
        otherChoices.json.Resources.RecoverGithubLambdaFunction!.Properties;
      const folder = await unpacked(join(project.folder, "build/aws/recover-github.zip"));
      const { ONCEBOX_RECOVER_GITHUB } = Environment.Variables;
      const env = {
        ONCEBOX_RECOVER_GITHUB,
        ONCEBOX_GITHUB_TOKEN: token,
        ONCEBOX_GITHUB_API_URL: github.url,
      };
      const recover = lambdaFunction({ folder, handler: Handler, env, timeoutMs: Timeout * 1_000 });
      try {
        expect(await recover.invoke({})).toMatchObject({ failed: 1, asked: 1, isComplete: true });
        expect(github.redelivered).toEqual(["one"]);
        expect(recover.logs()).not.toContain(token);
      } finally {
        await recover.close();
        await github.close();
        await rm(folder, { recursive: true, force: true });
      }
    });
  });

  it("FUN-09 FUN-10 every archive, unpacked with nothing beside it, does its job under Amazon's runtime", async () => {
    const database = await ownDatabase();
    await migrate(database.db);
    const running: LambdaFunction[] = [];
    const folders: string[] = [];
    const start = async (name: string) => {
      const { Handler, Timeout } = properties(`${name}LambdaFunction`);
      const folder = await unpacked(join(project.folder, "build/aws", `${name.toLowerCase()}.zip`));
      folders.push(folder);
      const env = { ONCEBOX_DATABASE_URL: database.url, STRIPE_WEBHOOK_SECRET: webhookSecret };
      const made = lambdaFunction({ folder, handler: Handler, env, timeoutMs: Timeout * 1_000 });
      running.push(made);
      return made;
    };
    try {
      const [webhook, consume, dispatch, reap, cleanup] = await Promise.all(functionNames.map(start));
      const accepted = await webhook!.invoke<APIGatewayProxyStructuredResultV2>(
        stripeHttpEvent({ id: "evt_1" }),
      );
      expect(answerOf(accepted)).toEqual({ status: 200, outcome: "enqueued" });
      const wakeUp = { Records: [{ eventSource: "aws:sqs", body: '{"oncebox":"wake-up"}' }] };
      expect(await dispatch!.invoke(wakeUp)).toMatchObject({
        inbox: { acked: 1 },
        outbox: { acked: 1 },
        batchItemFailures: [],
      });
      expect(dispatch!.logs()).toContain("sending the receipt of evt_1");
      const queued = { messageId: "1", receiptHandle: "1", body: "{}", eventSource: "aws:sqs" };
      const taken = {
        Records: [queued, queued].map((one) => ({ ...one, attributes: {}, messageAttributes: {} })),
      };
      expect(await consume!.invoke(taken)).toEqual({ batchItemFailures: [] });
      expect(await dispatch!.invoke(wakeUp)).toMatchObject({ inbox: { acked: 0 }, outbox: { acked: 1 } });
      expect(await reap!.invoke({})).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });
      expect(reap!.logs()).toMatch(/^\{.*"message":"queue","queue":"inbox","oldestDueAgeMs":0\}$/m);
      expect(await cleanup!.invoke({})).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });
    } finally {
      await Promise.all(running.map((one) => one.close()));
      await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
      await database.drop();
    }
  });
});
