// What azure.yaml runs around a deployment, and people for secrets, with az, as the signed-in person or pipeline.
//   node infra/azure/hooks.mjs allow     the apps' identities may write their archives
//   node infra/azure/hooks.mjs deny      they may only read them again
//   node infra/azure/hooks.mjs migrate   calls the migration function: tables, users and their rights
//   node infra/azure/hooks.mjs secret NAME [--tenants]   puts the text of the standard input into the vault, or the tenants' vault
// Secrets go through Azure's own API and not through the vault's address, which may be private.
// With --print it prints the commands instead of running them.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const flags = process.argv.slice(2).filter((text) => text.startsWith("--"));
const [task, secretName] = process.argv.slice(2).filter((text) => !text.startsWith("--"));
const isPrinting = flags.includes("--print");
const { DEPLOYMENT_RIGHTS = "", AZURE_RESOURCE_GROUP = "", MIGRATE_APP = "", MIGRATE_URL = "" } = process.env;
const { AZURE_SUBSCRIPTION_ID = "", AZURE_KEY_VAULT = "", AZURE_TENANTS_VAULT = "" } = process.env;
const role = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"; // Storage Blob Data Contributor
/** A new right is seen everywhere within ten minutes, mostly within one. A deployment that comes too early fails, and can be repeated. */
const rightsMs = 90_000;
/** After a first deployment the app's own rights may be that new. */
const migrationMs = 15 * 60_000;

function az(...args) {
  if (isPrinting) {
    console.log(["az", ...args].join(" "));
    return "";
  }
  return execFileSync("az", args, { encoding: "utf8", shell: process.platform === "win32" }).trim();
}

/** `container=principal` for each app; none where the rights are kept. */
const rights = () =>
  DEPLOYMENT_RIGHTS.split(" ")
    .filter((right) => right !== "")
    .map((right) => right.split("="));

async function allow() {
  for (const [scope, principal] of rights()) {
    const who = ["--assignee-object-id", principal, "--assignee-principal-type", "ServicePrincipal"];
    az("role", "assignment", "create", "--role", role, ...who, "--scope", scope, "--output", "none");
  }
  if (rights().length > 0 && !isPrinting) await sleep(rightsMs);
}

function deny() {
  for (const [scope, principal] of rights())
    az("role", "assignment", "delete", "--role", role, "--assignee", principal, "--scope", scope);
}

async function migrate() {
  const app = ["--resource-group", AZURE_RESOURCE_GROUP, "--name", MIGRATE_APP];
  const key = az("functionapp", "keys", "list", ...app, "--query", "functionKeys.default", "--output", "tsv");
  if (isPrinting) {
    console.log(`POST ${MIGRATE_URL}`);
    return;
  }
  const until = Date.now() + migrationMs;
  for (;;) {
    const answer = await post(key);
    console.log(`migrate: ${answer}`);
    if (answer.startsWith("200 ")) return;
    if (Date.now() > until) throw new Error(`The migration did not succeed: ${answer}`);
    await sleep(15_000);
  }
}

async function post(key) {
  try {
    const answer = await fetch(MIGRATE_URL, { method: "POST", headers: { "x-functions-key": key } });
    return `${answer.status} ${await answer.text()}`;
  } catch (error) {
    return `no answer: ${error.message}`;
  }
}

/** The text is in no list of processes: az reads it from a file that only this user can read. */
function secret() {
  const vault = flags.includes("--tenants") ? AZURE_TENANTS_VAULT : AZURE_KEY_VAULT;
  const group = `/subscriptions/${AZURE_SUBSCRIPTION_ID}/resourceGroups/${AZURE_RESOURCE_GROUP}`;
  const path = `${group}/providers/Microsoft.KeyVault/vaults/${vault}/secrets/${secretName}`;
  const value = readFileSync(0, "utf8").replace(/\r?\n$/, "");
  if (!/^[\w-]+$/.test(secretName ?? "") || value === "")
    throw new Error("Give a name, and the secret as standard input.");
  const folder = mkdtempSync(join(tmpdir(), "oncebox-secret-"));
  const file = join(folder, "body.json");
  try {
    const properties = { value, attributes: { enabled: true } };
    writeFileSync(file, JSON.stringify({ properties }), { mode: 0o600 });
    const url = `https://management.azure.com${path}?api-version=2023-07-01`;
    az("rest", "--method", "put", "--url", url, "--body", `@${file}`, "--output", "none");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const tasks = { allow, deny, migrate, secret };
if (!Object.hasOwn(tasks, task ?? "")) {
  console.error("usage: node infra/azure/hooks.mjs allow|deny|migrate|secret NAME [--print]");
  process.exit(2);
}
await tasks[task]();
