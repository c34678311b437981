import { describe, expect, inject, it } from "vitest";
import { createInbox } from "../../src/inbox/inbox.js";
import { openPostgres } from "../../src/sql/postgres/index.js";

const url = (parameters: string) => `${inject("postgresUrl")}?${parameters}`;

describe("encrypted connections", () => {
  it("IBX-128 sslmode=require in the URL is kept: a server without encryption is refused", async () => {
    for (const mode of ["require", "verify-full"]) {
      const db = openPostgres({ url: url(`sslmode=${mode}`) });
      try {
        await expect(createInbox(db).stats()).rejects.toThrow(/SSL/);
      } finally {
        await db.close();
      }
    }
  });

  it("IBX-128 the same server is used when the URL does not ask for encryption", async () => {
    const db = openPostgres({ url: url("sslmode=disable") });
    try {
      const rows = await db.driver.query({ name: "raw", text: "select 1 as one", unprepared: true }, {});
      expect(rows).toEqual([{ one: 1 }]);
    } finally {
      await db.close();
    }
  });
});
