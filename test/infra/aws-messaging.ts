import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readAwsMessageSettings } from "../../src/config/aws-settings.js";
import { readMessaging } from "../../src/config/environment.js";
import { isSecretReference } from "../../src/config/secret-reference.js";
import { adminDefaults } from "../../src/http/admin-access.js";
import { type Resource, root, type Template } from "./aws-stack.js";

interface Stack {
  readonly json: Template;
}
type Stacks = Readonly<Record<"dev" | "prod" | "withMessaging" | "otherChoices", Stack>>;

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

const ofType = ({ json }: Stack, type: string): [string, Resource][] =>
  Object.entries(json.Resources).filter(([, { Type }]) => Type === type);
const properties = ({ json }: Stack, name: string) => json.Resources[name]!.Properties;
const variables = (stack: Stack, name: string) =>
  properties(stack, `Message${name}LambdaFunction`).Environment.Variables;
const statements = (stack: Stack, name: string) =>
  (properties(stack, `Message${name}Role`).Policies[0].PolicyDocument.Statement as Statement[]).map(
    ({ Action, Resource: to }) => [Action, to],
  );
const arn = (name: string) => ({ "Fn::GetAtt": [name, "Arn"] });
const names = ["Receive", "Dispatch", "Maintain"] as const;

/** What `messaging=true` adds to a stack, and that a stack without it has none of it. */
export function describeMessaging(stacks: () => Stacks): void {
  describe("with messaging=true", () => {
    it("MSG-02 MSG-05 FUN-10 three functions are added, and nothing that was there is changed; by default there is none of it", () => {
      const { dev, withMessaging } = stacks();
      const place = /serverless\/orders\/dev\/[^/]+/g; // every deployment has its own, by its time
      const text = (resources: object) => JSON.stringify(resources, null, 1).replace(place, "");
      const kept = Object.entries(withMessaging.json.Resources).filter(
        ([name]) => name in dev.json.Resources,
      );
      expect(text(Object.fromEntries(kept))).toBe(text(dev.json.Resources));
      const added = Object.keys(withMessaging.json.Resources).filter((name) => !(name in dev.json.Resources));
      expect(added.filter((name) => !/^Messag|^HttpApi(Route|Integration)/.test(name))).toEqual([]);
      const functions = ofType(withMessaging, "AWS::Lambda::Function").map(
        ([, { Properties }]) => Properties.FunctionName,
      );
      expect(functions.filter((name) => name.includes("message"))).toEqual(
        names.map((name) => `orders-dev-message-${name.toLowerCase()}`),
      );
      expect(
        JSON.stringify(dev.json).match(
          /_rf|SHOP|message-|Message(Receive|Dispatch|Maintain|WakeUp)|Messaging/g,
        ),
      ).toBeNull();
    });

    it("MSG-14 MSG-18 FUN-10 one route leads to the receiver and its diagnostics, with any method", () => {
      const { withMessaging } = stacks();
      const routes = ofType(withMessaging, "AWS::ApiGatewayV2::Route").filter(([, { Properties }]) =>
        Properties.RouteKey.includes("_rf"),
      );
      expect(routes.map(([, { Properties }]) => Properties.RouteKey)).toEqual(["ANY /_rf/{path+}"]);
      expect(JSON.stringify(routes[0]![1].Properties.Target)).toContain("HttpApiIntegrationMessageReceive");
      const { Timeout } = properties(withMessaging, "MessageReceiveLambdaFunction");
      const { TimeoutInMillis, PayloadFormatVersion, IntegrationUri } = properties(
        withMessaging,
        "HttpApiIntegrationMessageReceive",
      );
      expect([PayloadFormatVersion, IntegrationUri]).toEqual(["2.0", arn("MessageReceiveLambdaFunction")]);
      expect(Timeout * 1_000).toBeLessThan(TimeoutInMillis);
      expect(Timeout * 1_000).toBeGreaterThanOrEqual(2 * adminDefaults.callMs); // tokens, then the database
      // A handler that takes too long is rolled back by the service, and not cut off with its function.
      const service = readFileSync(join(root, "functions/service.ts"), "utf8");
      const [, handlerTimeoutMs] = /handlerTimeoutMs: ([\d_]+),/.exec(service)!;
      expect(Number(handlerTimeoutMs!.replace("_", ""))).toBeLessThan(Timeout * 1_000);
    });

    it("MSG-08 FUN-10 each function has a role that reads its own secrets; only the receiver reads the tokens", () => {
      const { withMessaging, prod } = stacks();
      for (const stack of [withMessaging, prod]) {
        const log = (name: string) => [
          ["logs:CreateLogStream", "logs:PutLogEvents"],
          arn(`Message${name}LogGroup`),
        ];
        const secrets = (...all: readonly string[]) => [
          "secretsmanager:GetSecretValue",
          ["DatabaseUrlSecret", "MessagingShopSecret", ...all].map((Ref) => ({ Ref })),
        ];
        const decrypt = ["kms:Decrypt", arn("EncryptionKey")];
        const taken = [
          "sqs:ReceiveMessage",
          "sqs:DeleteMessage",
          "sqs:GetQueueAttributes",
          "sqs:SendMessage",
        ];
        expect(statements(stack, "Receive")).toEqual([
          log("Receive"),
          secrets("MessagingTokensSecret"),
          decrypt,
          ["sqs:SendMessage", arn("MessageWakeUpQueue")],
        ]);
        expect(statements(stack, "Dispatch")).toEqual([
          log("Dispatch"),
          secrets(),
          decrypt,
          [taken, arn("MessageWakeUpQueue")],
        ]);
        expect(statements(stack, "Maintain")).toEqual([log("Maintain"), secrets(), decrypt]);
        for (const name of names)
          expect(properties(stack, `Message${name}LambdaFunction`).Role).toEqual(arn(`Message${name}Role`));
        const readers = ofType(stack, "AWS::IAM::Role").filter(([, role]) =>
          /Messaging\w+Secret|MessageWakeUpQueue/.test(JSON.stringify(role)),
        );
        expect(readers.map(([name]) => name)).toEqual(names.map((name) => `Message${name}Role`));
      }
    });

    it("MSG-08 FUN-10 its secrets have no value in the template, and the functions refer to them by the names that the service reads", () => {
      const { withMessaging } = stacks();
      for (const [name, kept] of [
        ["MessagingShopSecret", "orders/dev/messaging/shop"],
        ["MessagingTokensSecret", "orders/dev/messaging-tokens"],
      ] as const) {
        const { Name, SecretString, GenerateSecretString } = properties(withMessaging, name);
        expect([Name, SecretString ?? GenerateSecretString]).toEqual([kept, undefined]);
      }
      const service = readFileSync(join(root, "functions/service.ts"), "utf8");
      const read = [...service.matchAll(/secrets\("(\w+)"\)/g)].map(([, name]) => name!);
      expect(read).toEqual(["SHOP_SECRET", "MESSAGING_TOKENS"]);
      for (const variable of read) {
        const reference = JSON.parse(variables(withMessaging, "Receive")[variable]["Fn::Sub"]);
        expect(isSecretReference(reference)).toBe(true);
        expect(reference.id).toMatch(variable === "SHOP_SECRET" ? /MessagingShop/ : /MessagingTokens/);
      }
      for (const name of names) {
        expect(variables(withMessaging, name)).toMatchObject({
          SHOP_ADDRESS: "https://shop.example/_rf/receive",
          SHOP_SECRET: variables(withMessaging, "Receive").SHOP_SECRET,
        });
      }
      for (const name of ["Dispatch", "Maintain"])
        expect(variables(withMessaging, name)).not.toHaveProperty("MESSAGING_TOKENS");
    });

    it("MSG-02 FUN-06 FUN-10 a queue, or with wakeUp=invoke an invocation, wakes the dispatcher; schedules start it and maintain each minute", () => {
      const { withMessaging, otherChoices } = stacks();
      for (const name of ["Receive", "Dispatch"]) {
        const byQueue = variables(withMessaging, name);
        expect(byQueue.ONCEBOX_MESSAGE_WAKE_QUEUE_URL).toEqual({ Ref: "MessageWakeUpQueue" });
        expect(byQueue.ONCEBOX_MESSAGE_DISPATCH_FUNCTION).toBeUndefined();
        const { ONCEBOX_MESSAGE_DISPATCH_FUNCTION, ONCEBOX_MESSAGE_WAKE_QUEUE_URL } = variables(
          otherChoices,
          name,
        );
        const env = { ONCEBOX_MESSAGE_DISPATCH_FUNCTION, ONCEBOX_MESSAGE_WAKE_QUEUE_URL };
        const { FunctionName } = properties(otherChoices, "MessageDispatchLambdaFunction");
        expect(readAwsMessageSettings(env)).toEqual({
          dispatchFunction: FunctionName,
          wakeQueueUrl: undefined,
        });
        const invoked = `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${FunctionName}`;
        expect(statements(otherChoices, name).at(-1)).toEqual([
          "lambda:InvokeFunction",
          { "Fn::Sub": invoked },
        ]);
      }
      expect(JSON.stringify(otherChoices.json)).not.toMatch(/MessageWakeUp/);
      const mapping = ofType(withMessaging, "AWS::Lambda::EventSourceMapping").find(([name]) =>
        name.startsWith("Message"),
      )![1].Properties;
      expect(mapping).toMatchObject({
        EventSourceArn: arn("MessageWakeUpQueue"),
        FunctionName: arn("MessageDispatchLambdaFunction"),
        FunctionResponseTypes: ["ReportBatchItemFailures"],
      });
      // The schedule needs one that the queue leaves.
      const { ReservedConcurrentExecutions, RecursiveLoop } = properties(
        withMessaging,
        "MessageDispatchLambdaFunction",
      );
      expect(mapping.ScalingConfig.MaximumConcurrency).toBeLessThan(ReservedConcurrentExecutions);
      expect(RecursiveLoop).toBe("Allow");
      for (const stack of [withMessaging, otherChoices]) {
        const schedules = ofType(stack, "AWS::Events::Rule").filter(([name]) => name.startsWith("Message"));
        expect(schedules.map(([, { Properties }]) => Properties.ScheduleExpression)).toEqual([
          "rate(1 minute)",
          "rate(1 minute)",
        ]);
        for (const name of ["Dispatch", "Maintain"]) {
          expect(properties(stack, `Message${name}LambdaFunction`).Timeout).toBeLessThanOrEqual(60);
          expect(properties(stack, `Message${name}LambdaEvConf`)).toMatchObject({
            MaximumEventAgeInSeconds: 60,
            MaximumRetryAttempts: 0,
          });
        }
      }
    });

    it("MSG-04 MSG-15 FUN-10 alarms count the lines that a service writes of failed, expired and refused messages, and watch its functions", () => {
      const { dev, withMessaging } = stacks();
      const filters = ofType(withMessaging, "AWS::Logs::MetricFilter").filter(
        ([name]) => !(name in dev.json.Resources),
      );
      const reports = readFileSync(join(root, "src/messaging/reports.ts"), "utf8");
      const counted = filters.map(([, { Properties }]) => {
        const [, line] = /^\{ \$\.message = "(.*?)"/.exec(Properties.FilterPattern) ?? [];
        if (line !== undefined) expect(reports).toContain(`"${line}"`);
        const [{ MetricName, MetricNamespace }] = Properties.MetricTransformations;
        expect(MetricNamespace).toBe("orders/dev");
        return [Properties.LogGroupName.Ref, line ?? Properties.FilterPattern, MetricName];
      });
      const [failed, expired] = ["Outbox: message permanently failed", "Outbox: message expired"];
      const refused = "Inbox: HMAC verification failed";
      expect(counted).toEqual([
        ["MessageDispatchLogGroup", failed, "MessagesFailed"],
        ["MessageMaintainLogGroup", failed, "MessagesFailed"],
        ["MessageDispatchLogGroup", expired, "MessagesExpired"],
        ["MessageMaintainLogGroup", expired, "MessagesExpired"],
        ["MessageReceiveLogGroup", refused, "MessagesRefused"],
        ["MessageReceiveLogGroup", refused, "MessagesRefused"], // those without a line of their own
        ["HttpApiLogGroup", '{ $.path = "/_rf/*" && $.status = "5*" }', "MessageReceiveFailures"],
      ]);
      const watched = ofType(withMessaging, "AWS::CloudWatch::Alarm")
        .filter(([name]) => !(name in dev.json.Resources))
        .map(([, { Properties }]) => {
          expect(Properties.AlarmActions).toEqual([{ Ref: "AlarmTopic" }]);
          const [dimension] = Properties.Dimensions ?? [];
          const on = dimension?.Value.Ref ?? dimension?.Value["Fn::GetAtt"][0];
          return [Properties.MetricName, on].filter(Boolean).join(" ");
        });
      expect(watched.sort()).toEqual(
        [
          ...new Set(counted.map(([, , metric]) => metric)),
          ...names.flatMap((name) => [
            `Errors Message${name}LambdaFunction`,
            `Throttles Message${name}LambdaFunction`,
          ]),
          "ApproximateNumberOfMessagesVisible MessageWakeUpDeadLetters",
        ].sort(),
      );
    });

    it("MSG-01 FUN-10 the migrate function makes the service's tables, and only with messaging", () => {
      const { otherChoices } = stacks();
      const { ONCEBOX_MESSAGING } = properties(otherChoices, "MigrateLambdaFunction").Environment.Variables;
      expect(readMessaging({ ONCEBOX_MESSAGING: String(ONCEBOX_MESSAGING) })).toBe(true);
      const off = readFileSync(join(root, "infra/aws/messaging-false.yml"), "utf8");
      expect(off).toMatch(/^tables: false$/m);
    });

    it("FUN-10 in a VPC they are in the same subnets, and only Lambda may make their network interfaces", () => {
      const { prod, withMessaging } = stacks();
      const { Roles, PolicyDocument } = properties(prod, "MessageNetworkPolicy");
      expect(Roles).toEqual(names.map((name) => ({ Ref: `Message${name}Role` })));
      const [allowed, denied] = PolicyDocument.Statement;
      const [others] = properties(prod, "NetworkPolicy").PolicyDocument.Statement;
      expect(allowed).toEqual(others);
      expect(denied).toMatchObject({ Effect: "Deny", Action: allowed.Action, Resource: "*" });
      const code = denied.Condition.ArnEquals["lambda:SourceFunctionArn"] as { "Fn::Sub": string }[];
      expect(code.map((one) => one["Fn::Sub"].split(":").at(-1))).toEqual(
        names.map((name) => properties(prod, `Message${name}LambdaFunction`).FunctionName),
      );
      for (const name of names) {
        const { Properties, DependsOn } = prod.json.Resources[`Message${name}LambdaFunction`]!;
        expect(Properties.VpcConfig).toEqual(properties(prod, "WebhookLambdaFunction").VpcConfig);
        expect(DependsOn).toContain("MessageNetworkPolicy");
        expect(properties(withMessaging, `Message${name}LambdaFunction`).VpcConfig).toBeUndefined();
      }
    });
  });
}
