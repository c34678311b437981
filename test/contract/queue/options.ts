import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import type { StoreOptions } from "../../../src/sql/store-options.js";
import type { AnyKey, QueueContext } from "./support.js";

/** Wrong options are refused when a queue is created, not when it is first used. */
export function optionTests({ database, open }: QueueContext): void {
  const creating = (options: object) => () => open(database().db, options as StoreOptions<AnyKey>);

  describe("options", () => {
    it("unknown options are refused, all in one error", () => {
      const create = creating({ tabel: "x", retires: 3, table: "t" });
      expect(create).toThrow(InvalidArgumentError);
      expect(create).toThrow(/tabel.*retires/);
      expect(create).toThrow(/Known: .*deadInPartition/);
    });

    it("IBX-082 IBX-084 OBX-063 OBX-065 a retry policy out of range is refused, with every problem in one error", () => {
      const wrong: Record<string, unknown>[] = [
        ...[0, -1, 1.5, Number.NaN, "3", null].map((maxAttempts) => ({ maxAttempts })),
        ...[0, -1, Number.NaN, Number.POSITIVE_INFINITY].map((baseMs) => ({ baseMs })),
        ...[0, 0.5, 101, Number.NaN].map((factor) => ({ factor })),
        ...[0, -1, 400 * 86_400_000].map((maxMs) => ({ maxMs })),
        ...[-1, Number.NaN].map((jitterMs) => ({ jitterMs })),
        { maxAttempt: 3 },
      ];
      for (const retry of wrong) {
        const [[name, value]] = Object.entries(retry) as [[string, unknown]];
        expect(creating({ retry }), `${name} ${String(value)}`).toThrow(ArgumentRangeError);
        expect(creating({ retry })).toThrow(new RegExp(name));
      }
      expect(creating({ retry: { maxAttempts: 0, factor: 0 } })).toThrow(/maxAttempts.*factor/);
    });

    it("MID-01 invalid names are refused, by the option's name", () => {
      const wrong: [string, object][] = [
        ["table", { table: "" }],
        ["table", { table: "x".repeat(200) }],
        ["table", { table: "a\0b" }],
        ["table", { table: 7 }],
        ["schema", { schema: "" }],
        ["schema", { schema: "x".repeat(200) }],
        ["processedBy", { processedBy: "x".repeat(101) }],
      ];
      for (const [name, options] of wrong) {
        expect(creating(options), JSON.stringify(options)).toThrow(InvalidArgumentError);
        expect(creating(options)).toThrow(new RegExp(name));
      }
    });

    it("options of the wrong type are refused", () => {
      const wrong = {
        onDead: "x",
        clock: 5,
        logger: {},
        processedBy: 7,
        id: 7,
        enableSchemaDeployment: "yes",
      };
      for (const [name, value] of Object.entries(wrong)) {
        expect(creating({ [name]: value }), name).toThrow(InvalidArgumentError);
        expect(creating({ [name]: value })).toThrow(new RegExp(name));
      }
    });
  });
}
