/** One mention of a table of a queue in a procedure, or one lock of partition keys, in the order of the text. */
export interface Access {
  readonly table:
    | "keys"
    | "message"
    | "state"
    | "done"
    | "store keys"
    | "partition queue"
    | "partition changes"
    | "attempts"
    | "archive"
    | "controls"
    | "unhandled topics";
  /** The hints of the table, such as `forceseek, updlock`. */
  readonly hints: string;
  /** It takes update or exclusive locks. */
  readonly locks: boolean;
  /** It skips what another transaction has locked. */
  readonly skips: boolean;
  /** New rows only: nobody else can have locked them. */
  readonly inserts: boolean;
  /** Its hints stand behind UPDATE or DELETE FROM itself, not in a FROM clause. */
  readonly isTarget: boolean;
  /** The statement from here to its end. */
  readonly rest: string;
  /** The text around it, for a test that fails. */
  readonly text: string;
}

const tables = {
  Messages: "message",
  State: "state",
  Done: "done",
  Keys: "store keys",
  PartitionQueue: "partition queue",
  PartitionChanges: "partition changes",
  Attempts: "attempts",
  Archive: "archive",
  Controls: "controls",
  Unhandled: "unhandled topics",
} as const;

/**
 * Reads a procedure's text as the sequence of tables that it locks. It knows the forms that the procedures are written in:
 * `update T`, `delete from T` and `insert into T` name the target; the target of an update or delete has its hints where the
 * FROM clause names it again, first or behind other tables, or right behind its name; `from T a with (…)` and `join T a with (…)` read.
 */
export function accessesOf(procedure: string, queue: string): readonly Access[] {
  const text = procedure.replace(/--[^\n]*/g, "");
  const table = `\\[infra\\]\\.\\[${queue}(${Object.keys(tables).join("|")})\\]`;
  const mention = new RegExp(
    `(exec @\\w+ = sp_getapplock[^;]*)|(insert into |update |delete from |from |join |, )${table}(?: (?!with\\b|set\\b|where\\b|on\\b|output\\b)\\w+)?(?: with \\(((?:[^()]|\\([^()]*\\))*)\\))?`,
    "g",
  );
  const found: Access[] = [];
  const targets = targetsOf(text, table);
  for (const match of text.matchAll(mention)) {
    const [, lock, word, suffix, hints = ""] = match;
    const around = text
      .slice(Math.max(0, match.index - 25), match.index + 160)
      .replace(/\s+/g, " ")
      .trim();
    if (lock !== undefined) {
      found.push({
        table: "keys",
        hints: "",
        locks: true,
        skips: /@LockTimeout = 0/.test(lock),
        inserts: false,
        isTarget: false,
        rest: lock,
        text: around,
      });
      continue;
    }
    const name = tables[suffix as keyof typeof tables];
    const isTarget = /^(update|delete from) /.test(word!);
    // The target of `update T … from x, T with (…)` is locked where the FROM clause names it.
    if (isTarget && hints === "" && targets.get(match.index) === true) continue;
    found.push({
      table: name,
      hints,
      locks: isTarget || word === ", " || /updlock|xlock/.test(hints) || word === "insert into ",
      skips: /readpast/.test(hints),
      inserts: word === "insert into ",
      isTarget,
      rest: text.slice(match.index, text.indexOf(";", match.index)),
      text: around,
    });
  }
  return found;
}

/** For each update or delete, by its place in the text: whether its statement names the target again in a FROM clause. */
function targetsOf(text: string, table: string): ReadonlyMap<number, boolean> {
  const places = new Map<number, boolean>();
  for (const match of text.matchAll(new RegExp(`(?:update |delete from )${table}`, "g"))) {
    const statement = text.slice(match.index, text.indexOf(";", match.index));
    const name = match[0].slice(match[0].indexOf("["));
    places.set(
      match.index,
      [", ", " from ", "\nfrom "].some((before) => statement.includes(`${before}${name} with (`)),
    );
  }
  return places;
}
