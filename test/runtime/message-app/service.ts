import { randomUUID } from "node:crypto";
import { openDatabase } from "../../../src/config/database-url.js";
import { createService, type OpenService } from "../../../src/messaging/index.js";
import { statement } from "../../../src/sql/driver.js";
import { messages } from "./messages.js";

/** The service under test, `cloud`. Each handler writes a row, in the transaction that records its message. */
const { TEST_DATABASE_URL: url = "", TEST_SCHEMA: schema, TEST_EFFECTS: effects = "effects" } = process.env;
const { TEST_SECRET: secret = "", TEST_OFFICE: address = "" } = process.env;
const { TEST_ADMIN_TOKENS: adminTokens } = process.env;
/** The item whose handler never ends. */
const { TEST_HANGS: hangs } = process.env;
const leave = statement("leave", `insert into ${effects} (message) values (:message)`);

export const open: OpenService = async ({ logger }) =>
  createService({
    serviceId: "cloud",
    db: await openDatabase(url),
    ...(schema === undefined ? {} : { schema }),
    messages,
    destinations: { office: { address, secrets: [secret], endpoints: "*" } },
    receive: {
      Reserve: async ({ item }, { tx }) => {
        await tx.query(leave, { message: item });
        if (item === hangs) await new Promise(() => {});
        return { reservation: randomUUID() };
      },
    },
    ...(adminTokens === undefined ? {} : { admin: { tokens: adminTokens } }),
    sentRetentionMs: 1,
    logger,
  });
