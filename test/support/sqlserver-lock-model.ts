/**
 * A model of SQL Server's locks, on the level of rows in indexes. A procedure is read from its text as the sequence of locks that it
 * takes; `ringsOf` then looks for transactions that wait for each other in a ring. It needs no server. What it knows of SQL Server:
 *
 * - A read through an index locks the entry there and, where the index does not have all its columns, then the row of the clustered
 *   index. The hints of the table hold for both.
 * - An update or a delete locks the row under U, then under X, then the entries of the other indexes that it changes, whatever its hints
 *   are. READPAST covers the first of these only.
 * - UPDLOCK and XLOCK hold until the transaction ends. A read's S lock holds until the statement goes on to the next row.
 *   READ_COMMITTED_SNAPSHOT takes S locks away, except where READCOMMITTEDLOCK stands.
 * - A row that READPAST skips behind its entry leaves the entry locked.
 * - Nobody waits for a new row, except who inserts the same unique key.
 *
 * It errs towards too many rings: each message has an entry in each index, and no condition of a statement is looked at.
 */

export type Mode = "S" | "U" | "X";

/** One row in one index, such as `Inbox_Key(1)`, or an application's lock. */
type Resource = string;

interface Lock {
  readonly resource: Resource;
  readonly mode: Mode;
  /** `waits` until it is granted, `skips` the row otherwise; `inserts` what nobody else has seen. */
  readonly how: "waits" | "skips" | "inserts";
  /** Until the transaction ends, not only until the statement goes on to the next row. */
  readonly isKept: boolean;
  /** The message, which READPAST drops from the rest of the transaction. */
  readonly row: Row;
  /** Where a row begins in a statement: S locks of the row before it are released. */
  readonly isFirst: boolean;
}

/** Two messages: 1 has the lower number, 2 the lower key. */
export type Row = 1 | 2;

/** A transaction that waits. */
export interface Moment {
  readonly procedure: string;
  readonly held: ReadonlyMap<Resource, Mode>;
  readonly wants: { readonly resource: Resource; readonly mode: Mode };
}

const isCompatible: Readonly<Record<Mode, Readonly<Record<Mode, boolean>>>> = {
  S: { S: true, U: true, X: false },
  U: { S: true, U: false, X: false },
  X: { S: false, U: false, X: false },
};
const strength: Readonly<Record<Mode, number>> = { S: 0, U: 1, X: 2 };

/** Rings of two and of three transactions, each as the procedures in it and what they wait for. */
export function ringsOf(moments: readonly Moment[]): readonly string[] {
  const waitsFor = (a: Moment, b: Moment) => {
    const mode = b.held.get(a.wants.resource);
    return mode !== undefined && !isCompatible[mode][a.wants.mode];
  };
  const coexist = (a: Moment, b: Moment) =>
    [...a.held].every(
      ([resource, mode]) => isCompatible[mode][b.held.get(resource) ?? "S"] || !b.held.has(resource),
    );
  const holders = new Map<Resource, Moment[]>();
  for (const one of moments)
    for (const resource of one.held.keys()) holders.set(resource, [...(holders.get(resource) ?? []), one]);
  const next = new Map<Moment, readonly Moment[]>();
  const nextOf = (a: Moment) => {
    const known = next.get(a);
    if (known !== undefined) return known;
    const found = (holders.get(a.wants.resource) ?? []).filter((b) => waitsFor(a, b) && coexist(a, b));
    next.set(a, found);
    return found;
  };
  const rings = new Set<string>();
  for (const a of moments)
    for (const b of nextOf(a)) {
      if (waitsFor(b, a)) rings.add(describe([a, b]));
      else for (const c of nextOf(b)) if (waitsFor(c, a) && coexist(c, a)) rings.add(describe([a, b, c]));
    }
  return [...rings].sort();
}

const describe = (ring: readonly Moment[]): string =>
  ring
    .map(({ procedure, wants }) => `${procedure} waits for ${wants.mode} ${wants.resource}`)
    .sort()
    .join(", ");

export interface Settings {
  /** READ_COMMITTED_SNAPSHOT. */
  readonly rowVersions: boolean;
}

/** A schema, a queue and the texts of its procedures. */
export interface Modelled {
  readonly tables: Tables;
  readonly texts: ReadonlyMap<string, string>;
}

/** The locks of one call on the message 1, in their order, such as `U Inbox_Key(1)`; `?` where it skips what is locked. */
export const sequenceOf = (model: Modelled, settings: Settings, name: string): readonly string[] => {
  const text = withCalls(model.texts.get(name)!, model.texts);
  const how = { ...variantsOf(text)[0]!, rows: [1] as const, readsLock: readsLock(text, settings) };
  const sequence = transactionsOf(text).flatMap((statements) => locksOf(statements, model.tables, how));
  return sequence.map(
    ({ mode, resource, how: taken }) => `${mode} ${resource}${taken === "skips" ? "?" : ""}`,
  );
};

/** Every moment at which one of the procedures waits. Each runs in a transaction of its own. */
export const momentsOf = (model: Modelled, settings: Settings): readonly Moment[] =>
  [...model.texts].flatMap(([name, text]) => {
    const whole = withCalls(text, model.texts);
    // whoever reads for people gives up after a second, and so ends every ring that it is in
    if (/set lock_timeout/.test(whole)) return [];
    return distinct(
      variantsOf(whole).flatMap((variant) =>
        transactionsOf(whole).flatMap((statements) =>
          runsOf(
            locksOf(statements, model.tables, { ...variant, readsLock: readsLock(whole, settings) }),
          ).flatMap((locks) => waitsOf(name, locks)),
        ),
      ),
    );
  });

/** Whether a read without hints locks what it reads. */
const readsLock = (text: string, { rowVersions }: Settings): boolean =>
  !rowVersions && !/isolation level read uncommitted/.test(text);

const distinct = (moments: readonly Moment[]): readonly Moment[] => [
  ...new Map(
    moments.map((one) => [`${one.wants.mode}${one.wants.resource} ${[...one.held].sort().join()}`, one]),
  ).values(),
];

/** Follows one run, and notes each wait for a lock with what is held then. */
function waitsOf(procedure: string, locks: readonly Lock[]): readonly Moment[] {
  const kept = new Map<Resource, Mode>();
  let short = new Map<Resource, Mode>();
  const moments: Moment[] = [];
  for (const { resource, mode, how, isKept, isFirst } of locks) {
    if (isFirst) short = new Map();
    const has = kept.get(resource);
    if (has !== undefined && strength[has] >= strength[mode]) continue;
    if (how === "waits")
      moments.push({ procedure, held: new Map([...short, ...kept]), wants: { resource, mode } });
    (isKept ? kept : short).set(resource, mode);
  }
  return moments;
}

/**
 * What READPAST may do to each message: take it, skip it, or skip it behind its entry. A message that was skipped is no more touched
 * in this transaction.
 */
function runsOf(locks: readonly Lock[]): readonly (readonly Lock[])[] {
  const rows: readonly Row[] = [1, 2];
  return rows.reduce<readonly (readonly Lock[])[]>(
    (runs, row) =>
      runs.flatMap((run) => {
        const skip = run.findIndex((one) => one.row === row && one.how === "skips");
        if (skip < 0) return [run];
        const without = (from: number) => run.filter((one, at) => one.row !== row || at < from);
        const second = run[skip + 1];
        const isLookedUp = second?.row === row && second.how === "skips" && !second.isFirst;
        return [run, without(skip), ...(isLookedUp ? [without(skip + 1)] : [])];
      }),
    [locks],
  );
}

/** Which messages a call touches, in which order, whether it finds them or inserts them, and whether they have partition keys. */
interface Variant {
  readonly rows: readonly Row[];
  /** The queue whose messages the text may insert, with their states. */
  readonly queue: string | undefined;
  /** They are new there. */
  readonly isNew: boolean;
  /** There are pauses or limits. */
  readonly isControlled: boolean;
  readonly isKeyed: boolean;
  /** Where FORCESEEK leaves the choice between two indexes, the server takes the clustered one or the other. */
  readonly prefersClustered: boolean;
}

/** A call that takes several messages takes both. A call of one takes either. New ones come in the caller's order. */
function variantsOf(text: string): readonly Variant[] {
  const isBatch = /@items|@limit|@messages/.test(text);
  const queue = /insert into \[infra\]\.\[(Inbox|Outbox)(?:Messages|Keys)\] /.exec(text)?.[1];
  const known: readonly (readonly Row[])[] = isBatch ? [[1, 2]] : [[1], [2]];
  const added: readonly (readonly Row[])[] = isBatch
    ? [
        [1, 2],
        [2, 1],
      ]
    : [[1], [2]];
  const arrivals = [
    ...known.map((rows) => ({ rows, queue, isNew: false })),
    ...(queue === undefined ? [] : added.map((rows) => ({ rows, queue, isNew: true }))),
  ];
  return arrivals.flatMap((one) =>
    eitherIf(/sp_getapplock/.test(text)).flatMap((isKeyed) =>
      eitherIf(/Controls\]/.test(text)).flatMap((isControlled) =>
        [true, false].map((prefersClustered) => ({ ...one, isKeyed, isControlled, prefersClustered })),
      ),
    ),
  );
}

const eitherIf = (isOpen: boolean): readonly boolean[] => (isOpen ? [true, false] : [false]);

/** The text with the texts of the procedures that it calls. */
function withCalls(text: string, texts: ReadonlyMap<string, string>): string {
  const plain = text.replace(/--[^\n]*/g, "");
  return plain.replaceAll(/exec \[infra\]\.\[(\w+)\][^;]*;/g, (call, name: string) => {
    const called = texts.get(name);
    return called === undefined ? call : withCalls(called.slice(called.indexOf("\nas\n") + 4), texts);
  });
}

/** The statements between BEGIN TRANSACTION and COMMIT together, and each other one by itself. */
function transactionsOf(text: string): readonly (readonly string[])[] {
  const transactions: string[][] = [];
  let depth = 0;
  for (const statement of text.split(";").flatMap(withoutCondition)) {
    if (depth === 0 || transactions.length === 0) transactions.push([]);
    transactions.at(-1)!.push(statement);
    if (/\bbegin transaction\s*$/.test(statement)) depth++;
    if (/\bcommit transaction\s*$/.test(statement)) depth--;
  }
  return transactions;
}

/** The condition of an IF is a statement of its own: its locks end before the next. It has its line breaks between parentheses. */
function withoutCondition(statement: string): readonly string[] {
  const start = statement.search(/\bif\b/);
  if (start < 0) return [statement];
  let depth = 0;
  for (let at = start; at < statement.length; at++) {
    if (statement[at] === "(") depth++;
    if (statement[at] === ")") depth--;
    if (depth === 0 && statement[at] === "\n")
      return [statement.slice(0, at), ...withoutCondition(statement.slice(at))];
  }
  return [statement];
}

/** An index of a table, as its CREATE says. */
interface Index {
  readonly name: string;
  readonly isClustered: boolean;
  readonly isUnique: boolean;
  readonly keys: readonly string[];
  /** All columns that are in it or decide whether a row is, without those of the clustered index. */
  readonly columns: ReadonlySet<string>;
  /** The parts of its condition, such as `status = 0`, which must stand in the statement. */
  readonly filter: readonly string[];
}

export type Tables = ReadonlyMap<string, readonly Index[]>;

/** Reads the tables and indexes from the statements that create them. */
export function tablesOf(statements: readonly string[]): Tables {
  const tables = new Map<string, Index[]>();
  const text = statements.join(";\n");
  for (const [, table, body] of text.matchAll(/create table \[infra\]\.\[(\w+)\] \((.*?)\n\s*\)(?=;|$)/gs)) {
    const of = [
      ...body!.matchAll(/constraint \[(\w+)\] (primary key clustered|unique nonclustered) \(([^)]+)\)/g),
    ];
    const index = ([, name, kind, keys]: RegExpMatchArray): Index => ({
      name: name!,
      isClustered: kind === "primary key clustered",
      isUnique: true,
      keys: namesIn(keys!),
      columns: new Set(namesIn(keys!)),
      filter: [],
    });
    tables.set(table!, of.map(index));
  }
  const indexes =
    /create (unique )?index \[(\w+)\] on \[infra\]\.\[(\w+)\] \(([^)]+)\)(?: include \(([^)]+)\))?(?: where ([^;]+))?/g;
  for (const [, unique, name, table, keys, include = "", where = ""] of text.matchAll(indexes))
    tables.get(table!)!.push({
      name: name!,
      isClustered: false,
      isUnique: unique !== undefined,
      keys: namesIn(keys!),
      columns: new Set([...namesIn(keys!), ...namesIn(include), ...filterOf(where).flatMap(namesIn)]),
      filter: filterOf(where),
    });
  return tables;
}

const filterOf = (where: string): readonly string[] => where.match(/\w+ (?:= \d+|is not null)/g) ?? [];

const namesIn = (text: string): readonly string[] => text.match(/\b[a-z_]+\b/g) ?? [];

/** A table that a statement names, in the order of the text. */
interface Mention {
  readonly table: string;
  readonly alias: string | undefined;
  readonly hints: string;
  readonly writes: "insert" | "update" | "delete" | undefined;
}

type How = Variant & { readonly readsLock: boolean };

/** The locks of statements, row by row; within a row, table by table. */
function locksOf(statements: readonly string[], tables: Tables, how: How): readonly Lock[] {
  return statements.flatMap((statement) => {
    const mentions = mentionsOf(statement, tables);
    const reads = mentions.filter(({ writes }) => writes !== "insert");
    const inserts = mentions.filter(({ writes }) => writes === "insert");
    const applock = /sp_getapplock @Resource = (@lock|N'([^']*)')([^;]*)/.exec(statement);
    const isByKey = applock !== null || /order by \w+\.(source|id|topic)\b/.test(statement);
    const isArriving = inserts.some(({ table }) => isArrival(table));
    const byNumber = isArriving ? how.rows : how.rows.toSorted();
    const rows = isByKey ? how.rows.toSorted((a, b) => b - a) : byNumber;
    return rows.flatMap((row) =>
      [
        ...(applock === null || !how.isKeyed ? [] : [applicationLock(applock, row)]),
        ...reads.flatMap((one) => locksOfOne(one, statement, tables.get(one.table)!, row, how)),
        ...inserts.flatMap((one) => locksOfInsert(one, tables.get(one.table)!, row, how)),
      ].map((lock, at) => ({ ...lock, isFirst: at === 0 })),
    );
  });
}

/** The lock of a partition key, or the one of all partition queues. */
const applicationLock = ([, name, whole, options]: RegExpExecArray, row: Row): Omit<Lock, "isFirst"> => ({
  resource: name === "@lock" ? `partition key(${row})` : whole!,
  mode: "X",
  how: /@LockTimeout = 0/.test(options!) ? "skips" : "waits",
  isKept: true,
  row,
});

/** Finds tables, and the functions that read a message by its number. */
function mentionsOf(statement: string, tables: Tables): readonly Mention[] {
  const found: Mention[] = [];
  const pattern =
    /(insert into |update |delete from |delete top \(@limit\) from |from |join |, |apply )\[infra\]\.\[(\w+)\](?: (?!with\b|set\b|where\b|on\b|output\b|from\b|order\b)(\w+))?(?: with \(((?:[^()]|\([^()]*\))*)\))?/g;
  const target = /\b(update|delete from) \[infra\]\.\[(\w+)\]/.exec(statement);
  const isNamedAgain =
    target !== null &&
    new RegExp(`(?:, |from )\\[infra\\]\\.\\[${target[2]}\\] with \\(`).test(
      statement.slice(target.index + 12),
    );
  for (const [, word, name, alias, hints = ""] of statement.matchAll(pattern)) {
    const reader = /^(Inbox|Outbox)_(?:KeyOf|MessageOf)$/.exec(name!);
    if (reader !== null) {
      found.push({
        table: `${reader[1]}Messages`,
        alias: "by number",
        hints: "forceseek",
        writes: undefined,
      });
      continue;
    }
    if (!tables.has(name!)) continue;
    const isTarget = /^(update|delete)/.test(word!);
    if (isTarget && isNamedAgain) continue;
    const isAgain = alias === undefined && target?.[2] === name && word !== "insert into ";
    const command = target?.[1] === "update" ? "update" : "delete";
    found.push({
      table: name!,
      alias,
      hints,
      writes: word === "insert into " ? "insert" : isTarget || isAgain ? command : undefined,
    });
  }
  return found;
}

/** The locks that a statement takes on one message in one table that it reads, updates or deletes from. */
function locksOfOne(
  mention: Mention,
  statement: string,
  indexes: readonly Index[],
  row: Row,
  { readsLock: locks, queue, isNew, isControlled, prefersClustered }: How,
): readonly Omit<Lock, "isFirst">[] {
  // what is not there yet is not found
  if (isNew && mention.table.startsWith(queue!)) return [];
  if (!isControlled && mention.table.endsWith("Controls")) return [];
  const { hints, writes } = mention;
  const mode = /xlock/.test(hints) ? "X" : writes !== undefined || /updlock/.test(hints) ? "U" : "S";
  const isLocking = mode !== "S" || locks || /readcommittedlock|readpast/.test(hints);
  const clustered = indexes.find(({ isClustered }) => isClustered)!;
  const entered = indexOf(mention, statement, indexes, prefersClustered);
  const lock = ({ name }: Index, as: Mode, how: Lock["how"]) => ({
    resource: `${name}(${row})`,
    mode: as,
    how,
    isKept: as !== "S",
    row,
  });
  const how = /readpast/.test(hints) ? "skips" : "waits";
  const looksUp =
    entered !== clustered && (writes !== undefined || !covers(entered, clustered, mention, statement));
  return [
    ...(isLocking ? [lock(entered, mode, how)] : []),
    ...(isLocking && looksUp ? [lock(clustered, mode, how)] : []),
    ...(writes === undefined ? [] : [lock(clustered, "X", "waits")]),
    ...(writes === undefined
      ? []
      : changed(indexes, writes, statement).map((one) => lock(one, "X", "waits"))),
  ];
}

/** The tables of messages, and of keys of an inbox store: their rows come from outside. */
const isArrival = (table: string): boolean => /^(Inbox|Outbox)(Messages|Keys)$/.test(table);

/**
 * New rows. A message that arrives gets a number that nobody else knows yet: only its unique keys can meet others. What is inserted for
 * a known message has its number.
 */
function locksOfInsert(
  { table }: Mention,
  indexes: readonly Index[],
  row: Row,
  { queue, isNew: areNew }: How,
): readonly Omit<Lock, "isFirst">[] {
  const isNew = areNew && table.startsWith(queue!);
  if (isArrival(table) !== isNew) return [];
  // the state of a message that is known is not inserted by who might insert the message
  if (table === `${queue}State`) return [];
  const shared = isNew ? indexes.filter(({ isUnique, isClustered }) => isUnique && !isClustered) : indexes;
  return shared.map(({ name }) => ({
    resource: isNew ? `new ${name}(${row})` : `${name}(${row})`,
    mode: "X",
    how: isNew ? "waits" : "inserts",
    isKept: true,
    row,
  }));
}

/** The named index; else one that FORCESEEK can seek by: its first column is compared, and its condition stands in the statement. */
function indexOf(
  mention: Mention,
  statement: string,
  indexes: readonly Index[],
  prefersClustered: boolean,
): Index {
  const clustered = indexes.find(({ isClustered }) => isClustered)!;
  const named = /index\(\[(\w+)\]\)/.exec(mention.hints)?.[1];
  if (named !== undefined) return indexes.find(({ name }) => name === named)!;
  if (mention.alias === "by number" || /index\(1\)/.test(mention.hints)) return clustered;
  const isTarget = mention.alias === undefined;
  const before = isTarget ? `(?:\\[${mention.table}\\]\\.|(?<![.\\w]))` : `\\b${mention.alias}\\.`;
  const text = isTarget ? statement.slice(statement.lastIndexOf("where ")) : statement;
  const isCompared = (column: string) =>
    new RegExp(`${before}\\[?${column}\\]?(?: collate \\w+)? (?:=|<=|>=|<|>|is not null)`).test(text);
  const isRequired = (condition: string) =>
    new RegExp(`\\b(?:where|and|on)\\s+${before}${condition}\\b`).test(text);
  const seekable = indexes.filter(({ keys, filter }) => isCompared(keys[0]!) && filter.every(isRequired));
  const depth = ({ keys }: Index) => keys.filter(isCompared).length;
  const others = seekable.filter((one) => one !== clustered).sort((a, b) => depth(b) - depth(a));
  if (seekable.includes(clustered) && prefersClustered) return clustered;
  return others[0] ?? clustered;
}

/** The index has all columns that the statement reads of the table. */
function covers(index: Index, clustered: Index, { alias }: Mention, statement: string): boolean {
  const read = [...statement.matchAll(new RegExp(`\\b${alias}\\.\\[?(\\w+)`, "g"))].map(
    ([, column]) => column!,
  );
  return read.every((column) => index.columns.has(column) || clustered.keys.includes(column));
}

/** The indexes whose entries an update or a delete changes, after the row. */
function changed(indexes: readonly Index[], writes: "insert" | "update" | "delete", statement: string) {
  const others = indexes.filter(({ isClustered }) => !isClustered);
  if (writes === "delete") return others;
  const set = setColumns(statement);
  return others.filter(({ columns }) => set.some((column) => columns.has(column)));
}

/** The columns of a SET clause: the first word of each part between commas outside of parentheses. */
function setColumns(statement: string): readonly string[] {
  const clause = statement.slice(statement.search(/\bset\b(?!\s+@)/) + 3);
  const columns: string[] = [];
  let depth = 0;
  for (const [token] of `, ${clause}`.matchAll(/[()]|, ?\s*\w+ =|\b(?:output|from|where)\b/g)) {
    if (token === "(") depth++;
    else if (token === ")") depth--;
    else if (depth > 0) continue;
    else if (!token.startsWith(",")) break;
    else columns.push(/\w+/.exec(token)![0]);
  }
  return columns;
}
