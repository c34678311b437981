import type { Database } from "../../../src/index.js";
import type { Delay } from "../../support/postgres-proxies.js";
import { clock } from "./records.js";

export interface SlowSettlements {
  /** How long the settlement that is sent now shall be delayed; undefined: not at all. */
  next(): Delay | undefined;
}

/**
 * Times in which every settlement takes longer than the lease, with times between them in which none does, until `isOver`.
 * Half of the delayed settlements reach the database late, half are confirmed late.
 */
export function slowSettlements(leaseMs: number, isOver: () => boolean): SlowSettlements {
  let slowFrom = clock() + 0.5 * Math.random() * leaseMs;
  let slowUntil = slowFrom + leaseMs;
  return {
    next() {
      const now = clock();
      if (now < slowFrom || isOver()) return undefined;
      if (now >= slowUntil) {
        slowFrom = now + leaseMs * (0.5 + Math.random());
        slowUntil = slowFrom + leaseMs;
        return undefined;
      }
      const ms = leaseMs * (1.2 + 0.8 * Math.random());
      return { of: Math.random() < 0.5 ? "request" : "response", ms };
    },
  };
}

const settling: ReadonlySet<string> = new Set(["ack", "abandon", "fail", "release"]);

/** The database with delays around its settlements; those in transactions are not delayed. */
export function withSlowSettlements(db: Database, slow: SlowSettlements): Database {
  const { driver } = db;
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  return {
    ...db,
    driver: {
      ...driver,
      async query(statement, params, options) {
        const delay = settling.has(statement.name) ? slow.next() : undefined;
        if (delay?.of === "request") await pause(delay.ms);
        const rows = await driver.query(statement, params, options);
        if (delay?.of === "response") await pause(delay.ms);
        return rows;
      },
    },
  };
}

/** Of a statement's text on PostgreSQL. */
export const isSettlement = (text: string): boolean => /^with (finished|abandoned|failed) as/.test(text);
