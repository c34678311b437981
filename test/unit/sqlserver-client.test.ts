import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../src/errors.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { toVariables } from "../../src/sql/named-parameters.js";
import {
  type MssqlRequest,
  type MssqlTransaction,
  parameterKind,
  parameterValue,
  transactionExecutor,
} from "../../src/sql/sqlserver/connection.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import {
  addMs,
  afterFunction,
  backoffSql,
  names,
  unicodeLiteral,
} from "../../src/sql/sqlserver/expressions.js";
import { fromMssql, openSqlServer } from "../../src/sql/sqlserver/index.js";
import { describeConnectionString, parseMssqlUrl } from "../../src/sql/sqlserver/open.js";

const select: SqlStatement = { name: "select", text: "select @a as a" };

const messageOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("It was not refused.");
};

describe("SQL Server URLs", () => {
  it("reads host, port, database, user, password and options", () => {
    expect(
      parseMssqlUrl(
        "mssql://app:p%40ss%2Fw%25rd@db.example:14330/orders?encrypt=false&trustServerCertificate=true&appName=shop",
      ),
    ).toEqual({
      server: "db.example",
      port: 14330,
      database: "orders",
      user: "app",
      password: "p@ss/w%rd",
      options: { encrypt: false, trustServerCertificate: true, appName: "shop" },
    });
  });

  it("leaves out what the URL does not say", () => {
    expect(parseMssqlUrl("mssql://db.example")).toEqual({ server: "db.example", options: {} });
  });

  it("ADD-01 an option that is given twice is refused: which of the two counts is anybody's guess", () => {
    expect(() => parseMssqlUrl("mssql://h/a?encrypt=true&encrypt=false")).toThrow(
      /has the option encrypt twice/,
    );
  });

  it("reads an IPv6 address and strict encryption", () => {
    expect(parseMssqlUrl("mssql://[::1]:1433/a?encrypt=strict")).toMatchObject({
      server: "::1",
      options: { encrypt: "strict" },
    });
  });

  it.each([
    ["another protocol", "postgres://app:secret@db.example/orders"],
    ["no URL at all", "secret"],
    ["no host", "mssql:///orders?appName=secret"],
    ["a password that is not encoded", "mssql://app:secret%zz@db.example/orders"],
    ["an option that is not known", "mssql://app:secret@db.example/orders?encypt=true"],
    ["an option with another value", "mssql://app:secret@db.example/orders?encrypt=secret"],
  ])("refuses %s, without quoting the URL", (_, url) => {
    expect(() => parseMssqlUrl(url)).toThrow(InvalidArgumentError);
    expect(messageOf(() => parseMssqlUrl(url))).not.toContain("secret");
  });
});

describe("openSqlServer", () => {
  it("names the database without user and password", () => {
    const ids = [
      openSqlServer({ url: "mssql://app:secret@db.example:1433/orders" }).id,
      openSqlServer({
        connectionString:
          "Server=db.example;Database=orders;User Id=app;Password='se;database=secret';Encrypt=true",
      }).id,
      openSqlServer({ config: { server: "db.example", database: "orders", user: "app", password: "secret" } })
        .id,
    ];
    expect(ids).toEqual(Array(3).fill("sqlserver:db.example/orders"));
  });

  it("reads server and database of a connection string whatever it calls them", () => {
    expect(describeConnectionString("data source=tcp:db.example,1433; Initial Catalog = orders")).toBe(
      "tcp:db.example,1433/orders",
    );
    expect(describeConnectionString('Password="a"";Server=no";Address=db.example')).toBe("db.example/");
    expect(describeConnectionString("nonsense")).toBe("unknown/");
  });

  it("refuses nothing to connect to, two things to connect to, and options it does not know", () => {
    expect(() => openSqlServer({})).toThrow(InvalidArgumentError);
    expect(() => openSqlServer({ config: {} })).toThrow(InvalidArgumentError);
    expect(() => openSqlServer({ url: "mssql://a/b", connectionString: "Server=a" })).toThrow(/not both/);
    expect(() => openSqlServer({ url: "mssql://a/b", prepare: true } as never)).toThrow(/prepare/);
  });

  it("connects at first use and not before, and refuses to be used after it was closed", async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `mssql://app@127.0.0.1:${(server.address() as AddressInfo).port}/orders`;
    const [unused, used] = [openSqlServer({ url }), openSqlServer({ url })];
    await unused.close();
    expect(connections).toBe(0);
    await expect(unused.driver.query(select, { a: 1 })).rejects.toThrow("The database was closed.");
    expect(connections).toBe(0);
    await expect(used.driver.query(select, { a: 1 })).rejects.toThrow();
    expect(connections).toBe(1);
    await used.close();
    await new Promise((resolve) => server.close(resolve));
  });
});

describe("SQL Server parameters", () => {
  it("has one type for all values of a kind", () => {
    expect(["", "text", null].map(parameterKind)).toEqual(Array(3).fill("nvarchar(max)"));
    expect([0, -1, 2 ** 40].map(parameterKind)).toEqual(Array(3).fill("bigint"));
    expect([0.5, 1e300, -2.25].map(parameterKind)).toEqual(Array(3).fill("float"));
    expect([true, false].map(parameterKind)).toEqual(["bit", "bit"]);
    expect(parameterKind(new Uint8Array([1]))).toBe("varbinary(max)");
  });

  it("gives bytes as a Buffer of just these bytes", () => {
    const part = new Uint8Array([0, 1, 2, 3]).subarray(1, 3);
    expect(parameterValue(part)).toEqual(Buffer.from([1, 2]));
  });

  it("sends only what the text uses, and takes no name in brackets, literal or comment for a parameter", () => {
    const params = { owner: "o", items: "[]", now: null, rowcount: 1 };
    const used = (text: string) => toVariables(text, params).order;
    expect(used("exec [a@items].[b]]@items] @owner = @owner -- @items")).toEqual(["owner"]);
    expect(used("select '@items', @@rowcount, @now, @other")).toEqual(["now"]);
  });
});

describe("SQL Server expressions", () => {
  it("adds milliseconds as whole days and the rest: an int has room for both", () => {
    const day = 86_400_000;
    const n = names("inbox", "infra", "Inbox");
    expect(addMs(n, "@now", "@ms")).toBe("(select a.later from [infra].[Inbox_After](@now, @ms) a)");
    expect(afterFunction(n)).toContain(
      `select dateadd(millisecond, cast(cast(round(@ms, 0) as bigint) % ${day} as int),
  dateadd(day, cast(cast(round(@ms, 0) as bigint) / ${day} as int), @time)) as later`,
    );
    expect(day).toBeLessThan(2 ** 31);
  });

  it("draws no random number where an expression may be repeated", () => {
    expect(backoffSql("attempt", "seq")).not.toMatch(/newid|rand\(/);
  });

  it("doubles quotes", () => {
    expect(unicodeLiteral("it's")).toBe("N'it''s'");
  });

  it("quotes names with brackets", () => {
    const names = sqlServerDialect.names("inbox", "my]schema", "In box");
    expect(names.message).toBe("[my]]schema].[In boxMessages]");
    expect(names.state).toBe("[my]]schema].[In boxState]");
    expect(names.view).toBe("[my]]schema].[In box]");
  });
});

describe("SQL Server faults", () => {
  const fault = (error: object) => sqlServerDialect.classify(error);

  it.each([601, 1205, 1222, 2601, 2627, 7105])("%i was rolled back", (number) => {
    expect(fault({ name: "RequestError", code: "EREQUEST", number })).toBe("rolledBack");
  });

  it.each([3906, 10928, 40501, 40613, 49918])("%i wants seconds before the next attempt", (number) => {
    expect(fault({ name: "RequestError", code: "EREQUEST", number })).toBe("unavailable");
  });

  it.each([233, 10054, 40197])("%i leaves open what happened", (number) => {
    expect(fault({ name: "RequestError", code: "EREQUEST", number })).toBe("unknown");
  });

  it("checks every error of a statement", () => {
    expect(fault({ number: 3621, precedingErrors: [{ number: 1205 }] })).toBe("rolledBack");
  });

  it("tells a connection that was lost from one that was never made", () => {
    expect(fault({ name: "RequestError", code: "ECLOSE", number: "ECLOSE" })).toBe("unknown");
    expect(
      fault({ name: "RequestError", code: "EREQUEST", message: "Connection lost - read ECONNRESET" }),
    ).toBe("unknown");
    expect(fault({ name: "ConnectionError", code: "ESOCKET", message: "Failed to connect to a:1433" })).toBe(
      "rolledBack",
    );
    expect(fault({ name: "ConnectionError", code: "ELOGIN", originalError: { isTransient: true } })).toBe(
      "rolledBack",
    );
  });

  it.each([
    { name: "ConnectionError", code: "ELOGIN" },
    { name: "RequestError", code: "ETIMEOUT" },
    { name: "RequestError", code: "EREQUEST", number: 8134 },
    new Error("anything"),
    {},
  ])("does not repeat %o", (error) => {
    expect(fault(error)).toBe("permanent");
  });

  it("knows a right that is missing", () => {
    for (const number of [229, 230]) expect(sqlServerDialect.isDenied!({ number })).toBe(true);
    const denied = "permission denied for table inbox";
    expect(sqlServerDialect.isDenied!({ number: 33557097, message: denied })).toBe(true);
    for (const error of [{ number: 33557097, message: "division by zero" }, { number: 208 }, undefined])
      expect(sqlServerDialect.isDenied!(error)).toBe(false);
  });

  it("knows a schema that is missing or old", () => {
    for (const number of [208, 2812, 207, 8145])
      expect(sqlServerDialect.isSchemaMissing({ number })).toBe(true);
    expect(
      sqlServerDialect.isSchemaMissing({ number: 33557097, message: 'relation "x" does not exist' }),
    ).toBe(true);
    expect(sqlServerDialect.isSchemaMissing({ number: 33557097, message: "division by zero" })).toBe(false);
    expect(sqlServerDialect.isSchemaMissing(undefined)).toBe(false);
  });
});

/** A transaction whose requests end when they are told to; it refuses two at once, as mssql does. */
function fakeTransaction() {
  let active = 0;
  const pending: (() => void)[] = [];
  const failures: ((error: Error) => void)[] = [];
  const cancelled: number[] = [];
  const inputs: unknown[][] = [];
  const texts: string[] = [];
  const request = (): MssqlRequest => ({
    input: (...given: unknown[]) => inputs.push(given),
    query: async (text) => {
      texts.push(text);
      if (active++ > 0) throw new Error("There is another request in progress.");
      await new Promise<void>((resolve, reject) => {
        pending.push(resolve);
        failures.push(reject);
      }).finally(() => active--);
      return { recordset: [{ a: 1 }] };
    },
    batch: async () => ({}),
    cancel: () => cancelled.push(1),
  });
  const ends: string[] = [];
  const end = (how: string) => async () => {
    if (active > 0) throw new Error("There is a request in progress.");
    ends.push(how);
  };
  const transaction: MssqlTransaction = { request, commit: end("commit"), rollback: end("rollback") };
  const settled = async () => {
    for (let tick = 0; tick < 10; tick++) await Promise.resolve();
  };
  const fail = (error: Error) => failures.at(-1)!(error);
  return { transaction, pending, cancelled, inputs, settled, fail, ends, texts };
}

describe("a caller's mssql transaction", () => {
  it("OBX-003 runs statements one after the other, although they are given at once", async () => {
    const { transaction, pending, settled } = fakeTransaction();
    const tx = fromMssql(transaction);
    const both = Promise.all([tx.query(select, { a: 1 }), fromMssql(transaction).query(select, { a: 2 })]);
    await settled();
    expect(pending).toHaveLength(1);
    pending[0]!();
    await settled();
    expect(pending).toHaveLength(2);
    pending[1]!();
    expect(await both).toEqual([[{ a: 1 }], [{ a: 1 }]]);
  });

  it("lets mssql derive the types: it may be another copy of it", async () => {
    const { transaction, pending, inputs, settled } = fakeTransaction();
    const running = fromMssql(transaction).query(select, { a: new Uint8Array([7]), b: 2 });
    await settled();
    pending[0]!();
    await running;
    expect(inputs).toEqual([["a", Buffer.from([7])]]);
  });

  it("OBX-003 ADD-06 gives up with the signal's reason when the cancelled request has ended, and then starts the next", async () => {
    const { transaction, pending, cancelled, settled, fail } = fakeTransaction();
    const executor = transactionExecutor(transaction);
    const controller = new AbortController();
    const given = executor.query(select, { a: 1 }, { signal: controller.signal });
    await settled();
    let hasEnded = false;
    given.catch(() => {
      hasEnded = true;
    });
    controller.abort(new Error("out of time"));
    await settled();
    expect(cancelled).toHaveLength(1);
    const next = executor.query(select, { a: 2 });
    await settled();
    expect(hasEnded).toBe(false);
    expect(pending).toHaveLength(1);

    fail(new Error("Canceled."));
    await expect(given).rejects.toThrow("out of time");
    await settled();
    pending[1]!();
    expect(await next).toEqual([{ a: 1 }]);
    await executor.idle();
  });

  it.each(["commit", "rollback"] as const)(
    "OBX-003 ADD-06 a %s waits for the statement that runs; a rollback refuses those that have not begun",
    async (how) => {
      const { transaction, pending, settled, ends } = fakeTransaction();
      const tx = fromMssql(transaction);
      const given = Promise.allSettled([tx.query(select, { a: 1 }), tx.query(select, { a: 2 })]);
      await settled();
      const ended = transaction[how]();
      await settled();
      expect([pending.length, ends]).toEqual([1, []]);
      pending[0]!();
      await settled();
      pending[1]?.();
      await ended;
      expect(ends).toEqual([how]);
      const second = how === "commit" ? "fulfilled" : "rejected";
      expect((await given).map(({ status }) => status)).toEqual(["fulfilled", second]);
    },
  );

  it("OBX-003 ADD-06 every statement checks in its own batch that the transaction is open, and says so when it is not", async () => {
    const { transaction, fail, settled, texts } = fakeTransaction();
    const running = fromMssql(transaction).query(select, { a: 1 });
    await settled();
    expect(texts).toEqual([
      `if @@trancount = 0 throw 50266, N'The transaction has ended.', 1;\n${select.text}`,
    ]);
    fail(Object.assign(new Error("ended"), { number: 50266 }));
    await expect(running).rejects.toThrow(/has ended/);
  });

  it("starts nothing when the signal has already fired", async () => {
    const { transaction, pending } = fakeTransaction();
    const tx = fromMssql(transaction);
    await expect(
      tx.query(select, { a: 1 }, { signal: AbortSignal.abort(new Error("late")) }),
    ).rejects.toThrow("late");
    expect(pending).toHaveLength(0);
  });

  it("refuses a pool, a request and nothing", () => {
    const pool = { connect: () => {}, request: () => {}, transaction: () => {} };
    for (const it of [pool, { query: () => {} }, undefined, null]) {
      expect(() => fromMssql(it as never)).toThrow(/not a ConnectionPool/);
    }
  });
});
