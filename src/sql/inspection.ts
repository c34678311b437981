import type { Database } from "./dialect.js";
import type { SqlRow, SqlStatement } from "./driver.js";
import type { QueueNames } from "./names.js";

const objectKinds = ["table", "index", "view", "routine", "trigger"] as const;
type ObjectKind = (typeof objectKinds)[number];

/** A setting of the database that oncebox does not work well with. */
export interface WrongSetting {
  readonly message: string;
  /** What changes it. */
  readonly run: string;
  /** The database works with it, though less well. */
  readonly tolerable: boolean;
}

/** An object and what the functions' user must be allowed to do with it. */
interface NeededPrivileges {
  readonly object: string;
  readonly privileges: readonly string[];
}

/** How a dialect reads its database's catalogue. The statements change nothing. */
export interface Inspection {
  /** Whether the catalogue's name is the one that the schema gave. */
  readonly isName: (live: string, given: string) => boolean;
  /** :schema → kind, name and, where the database keeps it, text of each object that the user can see */
  readonly objects: SqlStatement;
  /** :schema → table_name, name */
  readonly columns: SqlStatement;
  /** → now, in milliseconds since 1970. Undefined where the database has the process's clock. */
  readonly clock: SqlStatement | undefined;
  /** :schema → user_name, sees_all: whether the user sees the objects that it has no privileges on */
  readonly user: SqlStatement | undefined;
  /** :schema → name, privilege, allowed. Undefined where there are no users. */
  readonly privileges: SqlStatement | undefined;
  readonly needed: (queue: QueueNames) => readonly NeededPrivileges[];
  readonly grant: (queue: QueueNames, missing: NeededPrivileges, user: string) => string;
  /** → one row, for `wrongSettings` */
  readonly settings: SqlStatement | undefined;
  readonly wrongSettings: (row: SqlRow) => readonly WrongSetting[];
  /** Problems of the file, and the database opened so that nothing of it changes. Undefined for a server. */
  readonly file?: (db: Database) => Promise<InspectedFile>;
}

export interface InspectedFile {
  readonly wrong: readonly WrongSetting[];
  readonly db: Database;
}

/** An object that a batch creates. */
export interface SchemaObject {
  readonly kind: ObjectKind;
  /** Unquoted, without the schema. */
  readonly name: string;
  /** What creates it. */
  readonly batch: string;
  /** Of a table: its columns, each with the statement that adds it. */
  readonly columns: readonly { readonly name: string; readonly add: string }[];
}

const quotedName = String.raw`(?:"(?:[^"]|"")+"|\[(?:[^\]]|\]\])+\])`;
const creation = new RegExp(
  String.raw`\bcreate (?:or (?:replace|alter) )?(?:unique |constraint )?(table|index|view|function|procedure|trigger) (?:if not exists )?(${quotedName}(?:\.${quotedName})?)`,
  "g",
);
const lastName = new RegExp(`${quotedName}$`);
const namedConstraint = new RegExp(`^constraint (${quotedName}) (?:primary key|unique)`);

/** Finds what the batches of a schema create. They are the dialects' own texts, which quote every name. */
export function schemaObjects(batches: readonly string[]): readonly SchemaObject[] {
  const found = new Map<string, SchemaObject>();
  for (const batch of batches) {
    for (const match of batch.matchAll(creation)) {
      const [, word, name] = match;
      const kind = kindOf(word!);
      const items = kind === "table" ? itemsOf(batch.slice(match.index + match[0].length)) : [];
      const add = (item: string) => `alter table ${name} add ${item}`;
      const columns = items.filter(isColumn).map((item) => ({ name: item.split(/\s/)[0]!, add: add(item) }));
      const objects = [{ kind, name: unquoted(name!), batch, columns }];
      for (const item of items) {
        const constraint = namedConstraint.exec(item)?.[1];
        if (constraint !== undefined)
          objects.push({ kind: "index", name: unquoted(constraint), batch: add(item), columns: [] });
      }
      for (const object of objects) {
        const key = `${object.kind} ${object.name}`;
        if (!found.has(key)) found.set(key, object);
      }
    }
  }
  return [...found.values()];
}

const kindOf = (word: string): ObjectKind =>
  word === "function" || word === "procedure" ? "routine" : (word as ObjectKind);

function unquoted(name: string): string {
  const last = lastName.exec(name)![0];
  const inner = last.slice(1, -1);
  return comparableName(last.startsWith("[") ? inner.replaceAll("]]", "]") : inner.replaceAll('""', '"'));
}

/** Within a text that another statement executes, an apostrophe is written twice. Names are compared with one for several. */
export const comparableName = (name: string): string => name.replace(/'+/g, "'");

const isColumn = (item: string): boolean => !/^(constraint|primary key|unique|check)\b/.test(item);

/** The columns and constraints between the outer parentheses that follow the name of a created table. */
function itemsOf(rest: string): readonly string[] {
  const text = rest.replace(/--[^\n]*/g, "");
  const items: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = text.indexOf("("); at < text.length; at++) {
    const character = text[at];
    if (character === "(" && ++depth === 1) start = at + 1;
    const isEnd = character === ")" && --depth === 0;
    if (!isEnd && !(character === "," && depth === 1)) continue;
    items.push(text.slice(start, at).trim().replace(/\s+/g, " "));
    start = at + 1;
    if (isEnd) break;
  }
  return items;
}
