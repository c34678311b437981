/**
 * What is looked for in a JSON document. A scan reads the bytes once, from left to right, and makes no objects of them: a body of
 * 5 MB may hold millions of values, of which a few are asked for.
 */
export interface JsonPlan {
  /** Paths of values: `data.items.0.id`. */
  readonly paths: Iterable<string>;
  /** The steps to the list whose items are looked for. A `*` goes into each item of a list. */
  readonly list?: readonly string[] | undefined;
  /** What is looked for in each item. */
  readonly item?: CompiledPlan | undefined;
  /** Of a longer list one more is found. */
  readonly maxItems?: number;
  /** Paths of members that are to be left out. A name goes into each item of a list; `*` is each item or member. */
  readonly fields?: readonly string[];
}

export interface CompiledPlan {
  readonly root: State;
  readonly wanted: readonly Wanted[];
  readonly cuts: readonly Steps[];
  /** By path, the index of its start in `starts`. */
  readonly indexes: ReadonlyMap<string, number>;
  readonly list: readonly string[] | undefined;
  readonly maxItems: number;
  /** The number of paths, with those of an item. */
  readonly size: number;
}

/** Positions in the bytes. */
export interface Scanned {
  /** Of each path its value's start, -1 without one, and end. Of two members with the same key the last counts, as for JSON.parse. */
  readonly starts: ArrayLike<number>;
  readonly ends: ArrayLike<number>;
  /** Start and end of each member to leave out. */
  readonly cuts: readonly number[];
  /** Where the steps to the list end early, what they have reached is one item. */
  readonly items: readonly ScannedItem[];
}

interface ScannedItem {
  readonly start: number;
  readonly end: number;
  /** What was looked for in it. Its positions are those in the item. Undefined for one that is no item of a list. */
  readonly found: Scanned | undefined;
}

/** Deeper than any provider nests, and shallow enough for the parsers of handlers. */
export const maxDepth = 500;

export function compilePlan({ paths, list, item, maxItems = Infinity, fields = [] }: JsonPlan): CompiledPlan {
  const indexes = new Map([...new Set(paths)].map((path, index) => [path, index]));
  const wanted = [...indexes].map(([path, index]) => ({ steps: path.split("."), index }));
  const cuts = fields.map((path) => path.split("."));
  const ofItem = (item?.wanted ?? []).map(({ steps, index }) => ({ steps, index: index + wanted.length }));
  const items = list && { steps: list, wanted: ofItem, cuts: item?.cuts ?? [] };
  return {
    ...{ wanted, cuts, indexes, list, maxItems, size: wanted.length + ofItem.length },
    root: new State(wanted, items, cuts),
  };
}

/** Returns undefined for what is no JSON document, as JSON.parse reads it, or is nested deeper than `maxDepth`. */
export function scanJson(bytes: Uint8Array, plan: CompiledPlan): Scanned | undefined {
  const scan = new Scan(bytes, plan);
  return readAll(scan, plan.root) ? scan : undefined;
}

interface Wanted {
  readonly steps: readonly string[];
  readonly index: number;
}

type Steps = readonly string[];

/** The steps that are left to a list, and what is looked for in its items. */
interface List {
  readonly steps: Steps;
  readonly wanted: readonly Wanted[];
  readonly cuts: readonly Steps[];
}

/** What is looked for in one value. The states of the values in it are made when they are first met, and kept. */
class State {
  /** Of the paths that end here, and of all that go through here. */
  readonly ending: readonly number[];
  readonly through: readonly number[];
  readonly isCut: boolean;
  readonly isItem: boolean;
  readonly list: List | undefined;
  /** Whether something is to be done where a value with this state starts, and where it ends. */
  readonly hasStart: boolean;
  readonly hasEnd: boolean;
  /** By the first byte of their keys. */
  readonly #members: readonly (readonly Member[] | undefined)[];
  readonly #others: State | undefined;
  readonly #wanted: readonly Wanted[];
  readonly #cuts: readonly Steps[];
  #items: readonly (State | undefined)[] | undefined;

  constructor(wanted: readonly Wanted[], list: List | undefined, cuts: readonly Steps[], isItem = false) {
    this.ending = wanted.filter(({ steps }) => steps.length === 0).map(({ index }) => index);
    this.through = wanted.map(({ index }) => index);
    this.isCut = cuts.some((steps) => steps.length === 0);
    this.isItem = isItem;
    this.list = list;
    this.hasStart = wanted.length > 0 || isItem;
    this.hasEnd = this.ending.length > 0 || this.isCut || isItem || list !== undefined;
    this.#wanted = wanted.filter(({ steps }) => steps.length > 0);
    this.#cuts = this.isCut ? [] : cuts;
    const steps = [...this.#wanted.map((one) => one.steps), ...this.#cuts, list?.steps ?? []];
    const names = new Set(steps.flatMap(([step]) => (step === undefined || step === "*" ? [] : step)));
    this.#members = byFirstByte([...names].map((name) => memberOf(name, () => this.#inner(name))));
    this.#others = stateOf([], undefined, afterStar(this.#cuts));
  }

  /** The state of the member whose key, with its quotes, is written here. */
  member(bytes: Uint8Array, start: number, end: number): State | undefined {
    const members = this.#members[firstSign(bytes, start + 1)];
    if (members !== undefined)
      for (const member of members) if (isKey(bytes, start, end, member)) return member.state();
    return this.#others;
  }

  /** The state of an item of a list. */
  item(index: number): State | undefined {
    this.#items ??= this.#itemStates();
    return this.#items[index < this.#items.length ? index : this.#items.length - 1];
  }

  #inner(name: string): State | undefined {
    const wanted = this.#wanted.filter(({ steps }) => steps[0] === name).map(afterFirst);
    const cuts = this.#cuts.filter(([step]) => step === name || step === "*").map((steps) => steps.slice(1));
    return stateOf(wanted, this.#listAfter(name), cuts);
  }

  #listAfter(step: string): List | undefined {
    return this.list?.steps[0] === step ? { ...this.list, steps: this.list.steps.slice(1) } : undefined;
  }

  /** The last one is that of all later items. */
  #itemStates(): readonly (State | undefined)[] {
    const items = this.list?.steps.length === 0 ? this.list : undefined;
    const list = this.#listAfter("*");
    const cuts = items?.cuts ?? this.#cuts.map((steps) => (steps[0] === "*" ? steps.slice(1) : steps));
    const at = (index: number): State | undefined => {
      const wanted = this.#wanted.filter(({ steps }) => steps[0] === String(index)).map(afterFirst);
      return stateOf([...wanted, ...(items?.wanted ?? [])], list, cuts, items !== undefined);
    };
    const indexes = this.#wanted.map(({ steps }) => Number(steps[0])).filter((index) => index < maxIndex);
    return Array.from({ length: Math.max(-1, ...indexes) + 2 }, (_, index) => at(index));
  }
}

const afterFirst = ({ steps, index }: Wanted): Wanted => ({ steps: steps.slice(1), index });
const afterStar = (cuts: readonly Steps[]): readonly Steps[] =>
  cuts.filter(([step]) => step === "*").map((steps) => steps.slice(1));

/** No path asks for a later item of a list. */
const maxIndex = 100;

const stateOf = (
  wanted: readonly Wanted[],
  list: List | undefined,
  cuts: readonly Steps[],
  isItem = false,
): State | undefined =>
  wanted.length > 0 || list !== undefined || cuts.length > 0 || isItem
    ? new State(wanted, list, cuts, isItem)
    : undefined;

interface Member {
  readonly name: string;
  readonly key: Uint8Array;
  readonly isAscii: boolean;
  state(): State | undefined;
}

function memberOf(name: string, make: () => State | undefined): Member {
  let made: { readonly state: State | undefined } | undefined;
  const key = Buffer.from(name);
  return {
    ...{ name, key, isAscii: key.length === name.length },
    state() {
      made ??= { state: make() };
      return made.state;
    },
  };
}

function byFirstByte(members: readonly Member[]): readonly (readonly Member[] | undefined)[] {
  const table = new Array<Member[] | undefined>(256).fill(undefined);
  for (const member of members) {
    const first = asciiOrOther(member.key[0] ?? quote);
    table[first] = [...(table[first] ?? []), member];
  }
  return table;
}

/** All signs beyond ASCII are one: an escape has not their first byte. */
const asciiOrOther = (sign: number): number => (sign < 0x80 ? sign : 0x80);

function firstSign(bytes: Uint8Array, at: number): number {
  const sign = bytes[at]!;
  if (sign !== backslash) return asciiOrOther(sign);
  return asciiOrOther(bytes[at + 1] === smallU ? hexAt(bytes, at + 2) : escapedSign(bytes[at + 1]!));
}

/** Of the objects and lists that are open. One scan ends before the next begins, so all of them share these. */
const isList = new Uint8Array(maxDepth);
const states = new Array<State | undefined>(maxDepth).fill(undefined);
/** The rest only where there is a state: the last item, where it began, and how many items there were then. */
const indexes = new Int32Array(maxDepth);
const openedFrom = new Int32Array(maxDepth);
const openedAt = new Int32Array(maxDepth);
const itemsBefore = new Int32Array(maxDepth);
const hasStep = new Uint8Array(maxDepth);

const none: readonly never[] = [];

/** What one reading of a document finds. */
class Scan implements Scanned {
  readonly bytes: Uint8Array;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly cuts: number[] = [];
  readonly items: ScannedItem[] = [];
  readonly #plan: CompiledPlan;
  #cutsBeforeItem = 0;

  constructor(bytes: Uint8Array, plan: CompiledPlan) {
    this.bytes = bytes;
    this.#plan = plan;
    this.starts = new Int32Array(plan.size).fill(-1);
    this.ends = new Int32Array(plan.size);
  }

  started({ through, ending, isItem }: State, at: number): void {
    for (const index of through) this.starts[index] = -1;
    for (const index of ending) this.starts[index] = at;
    if (isItem) this.#cutsBeforeItem = this.cuts.length;
  }

  opened(depth: number, from: number, at: number): void {
    indexes[depth] = 0;
    openedFrom[depth] = from;
    openedAt[depth] = at;
    itemsBefore[depth] = this.items.length;
    hasStep[depth] = 0;
  }

  /** The state of a member of the object that is open. */
  member(around: State, depth: number, start: number, end: number): State | undefined {
    const state = around.member(this.bytes, start, end);
    if (state?.list === undefined) return state;
    this.items.length = itemsBefore[depth]!; // without those of an earlier member with the same key
    hasStep[depth] = 1;
    return state;
  }

  /** The state of an item of the list that is open. Of a list that is too long the rest is only read. */
  item(around: State, index: number): State | undefined {
    const isTooMany = this.items.length > this.#plan.maxItems && around.list?.steps.length === 0;
    return isTooMany ? undefined : around.item(index);
  }

  closed(state: State, depth: number, end: number): void {
    const step = state.list?.steps[0];
    const goesOn = step === undefined || step === "*" ? isList[depth] : hasStep[depth];
    this.ended(state, openedFrom[depth]!, openedAt[depth]!, end, goesOn === 1);
  }

  /** @param goesOn whether the list's items are in the value */
  ended(state: State, from: number, start: number, end: number, goesOn: boolean): void {
    const { ending, isCut, isItem, list } = state;
    for (const index of ending) this.ends[index] = end;
    if (isCut) this.cuts.push(from, end);
    const hasRoom = this.items.length <= this.#plan.maxItems;
    if (isItem && hasRoom) this.items.push({ start, end, found: this.#foundIn(start) });
    else if (list !== undefined && !goesOn && hasRoom) this.items.push({ start, end, found: undefined });
  }

  #foundIn(start: number): Scanned {
    const starts: number[] = [];
    const ends: number[] = [];
    for (let index = this.#plan.wanted.length; index < this.#plan.size; index++) {
      starts.push(this.starts[index]! < 0 ? -1 : this.starts[index]! - start);
      ends.push(this.ends[index]! - start);
    }
    if (this.cuts.length === this.#cutsBeforeItem) return { starts, ends, cuts: none, items: none };
    const cuts = this.cuts.splice(this.#cutsBeforeItem).map((at) => at - start);
    return { starts, ends, cuts, items: none };
  }
}

/** Reads all of the document. Returns whether it is one. */
function readAll(scan: Scan, root: State): boolean {
  const { bytes } = scan;
  let state: State | undefined = root;
  let depth = 0;
  let at = startOfJson(bytes);
  let from = at; // of a member, at its key
  for (;;) {
    const sign = bytes[at]!;
    if (state?.hasStart) scan.started(state, at);
    let isEmpty = true;
    if (sign === openBrace || sign === openBracket) {
      if (depth === maxDepth) return false;
      isList[depth] = sign === openBracket ? 1 : 0;
      states[depth] = state;
      if (state !== undefined) scan.opened(depth, from, at);
      depth++;
      at = skipBlank(bytes, at + 1);
      isEmpty = bytes[at] === sign + 2;
    } else {
      const isOneDigit = sign >= 0x30 && sign <= 0x39 && bytes[at + 1] === comma; // of which there may be millions
      const end = isOneDigit
        ? at + 1
        : sign === quote
          ? endOfString(bytes, at)
          : endOfScalar(bytes, at, sign);
      if (end < 0) return false;
      if (state?.hasEnd) scan.ended(state, from, at, end, false);
      at = skipBlank(bytes, end);
    }
    if (isEmpty) {
      while (depth > 0 && bytes[at] === (isList[depth - 1] === 1 ? closeBracket : closeBrace)) {
        depth--;
        const open = states[depth];
        if (open?.hasEnd) scan.closed(open, depth, at + 1);
        at = skipBlank(bytes, at + 1);
      }
      if (depth === 0) return at === bytes.length;
      if (bytes[at] !== comma) return false;
      at = skipBlank(bytes, at + 1);
    }
    const around: State | undefined = states[depth - 1];
    from = at;
    if (isList[depth - 1] === 1)
      state = around === undefined ? undefined : scan.item(around, isEmpty ? ++indexes[depth - 1]! : 0);
    else {
      const end = bytes[at] === quote ? endOfString(bytes, at) : -1;
      if (end < 0) return false;
      state = around === undefined ? undefined : scan.member(around, depth - 1, at, end);
      at = skipBlank(bytes, end);
      if (bytes[at] !== colon) return false;
      at = skipBlank(bytes, at + 1);
    }
  }
}

const byteOrderMark = [0xef, 0xbb, 0xbf];

/** Where the document begins, after a byte order mark and white space. */
export const startOfJson = (bytes: Uint8Array): number =>
  skipBlank(bytes, byteOrderMark.every((byte, index) => bytes[index] === byte) ? 3 : 0);

const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;
const smallU = 0x75;

function skipBlank(bytes: Uint8Array, from: number): number {
  if (bytes[from]! > 0x20) return from; // nearly always
  let at = from;
  for (
    let sign = bytes[at];
    sign === 0x20 || sign === 0x0a || sign === 0x0d || sign === 0x09;
    sign = bytes[at]
  )
    at++;
  return at;
}

/** Returns the index after the string, or -1. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    const sign = bytes[at]!;
    if (sign === quote) return at + 1;
    if (sign < 0x20) return -1;
    if (sign !== backslash) continue;
    at++;
    if (bytes[at] === smallU) {
      if (hexAt(bytes, at + 1) < 0) return -1;
      at += 4;
    } else if (escapedSign(bytes[at]!) < 0) return -1;
  }
  return -1;
}

/** The value of four hexadecimal digits, or -1. */
function hexAt(bytes: Uint8Array, start: number): number {
  let value = 0;
  for (let at = start; at < start + 4; at++) {
    const sign = bytes[at]!;
    const letter = (sign | 0x20) - 0x57;
    const digit = isDigit(sign) ? sign - 0x30 : letter >= 10 && letter <= 15 ? letter : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/** The sign that `\n` and the like stand for, or -1. */
function escapedSign(sign: number): number {
  switch (sign) {
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    case quote:
    case backslash:
    case 0x2f:
      return sign;
    default:
      return -1;
  }
}

const isDigit = (sign: number): boolean => sign >= 0x30 && sign <= 0x39;
const words = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), Buffer.from(word)]));

/** Returns the index after the number or the word, or -1. */
function endOfScalar(bytes: Uint8Array, start: number, first: number): number {
  if (first === 0x2d || isDigit(first)) return endOfNumber(bytes, start);
  const word = words.get(first);
  if (word === undefined) return -1;
  for (let index = 1; index < word.length; index++) if (bytes[start + index] !== word[index]) return -1;
  return start + word.length;
}

function endOfNumber(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === 0x2d ? start + 1 : start;
  at = bytes[at] === 0x30 ? at + 1 : endOfDigits(bytes, at);
  if (at >= 0 && bytes[at] === 0x2e) at = endOfDigits(bytes, at + 1);
  if (at >= 0 && (bytes[at]! | 0x20) === 0x65) {
    const isSigned = bytes[at + 1] === 0x2b || bytes[at + 1] === 0x2d;
    at = endOfDigits(bytes, at + (isSigned ? 2 : 1));
  }
  return at;
}

function endOfDigits(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at]!)) at++;
  return at === start ? -1 : at;
}

/** Whether the key that is written here, with its quotes, is this one. A sign may be written as an escape. */
function isKey(bytes: Uint8Array, start: number, end: number, { key, isAscii, name }: Member): boolean {
  if (end - start - 2 < key.length) return false;
  let at = start + 1;
  for (let index = 0; index < key.length; index++) {
    let sign = bytes[at]!;
    if (sign === backslash) {
      if (!isAscii) return JSON.parse(Buffer.from(bytes.subarray(start, end)).toString()) === name;
      const isUnicode = bytes[at + 1] === smallU;
      sign = isUnicode ? hexAt(bytes, at + 2) : escapedSign(bytes[at + 1]!);
      at += isUnicode ? 6 : 2;
    } else at++;
    if (sign !== key[index] || at >= end) return false;
  }
  return at === end - 1;
}
