import * as secretsManager from "@aws-sdk/client-secrets-manager";
import * as sqs from "@aws-sdk/client-sqs";
import { describe, expect, it } from "vitest";
import type { Resource, Template } from "./aws-stack.js";

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

/** Rules that hold for every stack, whatever its parameters. */
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

    it("FUN-10 the actions of queues and secrets are operations of their clients: a misspelled one would allow nothing", () => {
      const clients = { sqs, secretsmanager: secretsManager };
      for (const [service, client] of Object.entries(clients)) {
        const actions = known.filter((action) => action.startsWith(`${service}:`));
        expect(actions.length).toBeGreaterThan(3);
        for (const action of actions) expect(Object.keys(client)).toContain(`${action.split(":")[1]}Command`);
      }
      const used = allowed().flatMap(([, { Action }]) => Action);
      expect(known.filter((action) => !used.includes(action))).toEqual([]); // and none is left over
    });

    it("FUN-10 roles are assumed by Lambda alone, and no one outside of the account may use queues or keys", () => {
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

    it("FUN-10 secrets, alarms and archives are encrypted, the bucket is private and takes TLS alone", () => {
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
