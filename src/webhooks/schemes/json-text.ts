import { type CompiledPlan, compilePlan, type Scanned, scanJson, startOfJson } from "./json-scan.js";

/** A JSON document of which a few values are read. It is scanned once for all that its plan names. */
export class JsonText {
  readonly bytes: Uint8Array;
  readonly #plan: CompiledPlan;
  /** Of a few paths, so that a list is found sooner than a map is made. */
  readonly #values: { readonly path: string; readonly text: string | undefined }[] = [];
  #scanned: Scanned | undefined;
  /** Those of the plan's list. */
  #items: readonly JsonText[] | "whole" | undefined;

  private constructor(bytes: Uint8Array, plan: CompiledPlan, scanned?: Scanned) {
    this.bytes = bytes;
    this.#plan = plan;
    this.#scanned = scanned;
  }

  /** Returns undefined for what is no JSON, or is nested too deeply. */
  static read(bytes: Uint8Array, plan = noPlan): JsonText | undefined {
    const scanned = scanJson(bytes, plan);
    return scanned && new JsonText(bytes, plan, scanned);
  }

  get isObject(): boolean {
    return this.bytes[startOfJson(this.bytes)] === 0x7b;
  }

  text(): string {
    return textOf(this.bytes);
  }

  /** Returns the text or the whole number at a path: `data.items.0.id`. */
  value(path: string): string | undefined {
    for (const known of this.#values) if (known.path === path) return known.text;
    const text = asText(parsed(this.#bytesAt(path)));
    this.#values.push({ path, text });
    return text;
  }

  /** Returns the texts of a list, or the one that is there instead. Of a longer list, one more than `max`. */
  values(path: string, max: number): readonly (string | undefined)[] {
    const found = this.#bytesAt(path);
    const items = found && (new JsonText(found, noPlan).items([], max) ?? [new JsonText(found, noPlan)]);
    return items?.map(({ bytes }) => asText(parsed(bytes))) ?? [];
  }

  /**
   * The items of the list that the steps lead to; a `*` goes into each item of a list. Where the steps end early, what they have
   * reached is one item. Of a longer list, one more than `max`. Undefined where the document itself is the one item.
   */
  items(steps: readonly string[], max: number, plan = noPlan): readonly JsonText[] | undefined {
    if (this.#plan.list === steps) {
      this.#items ??= this.#itemsOf(this.#scan(), plan);
      return this.#items === "whole" ? undefined : this.#items.slice(0, max + 1);
    }
    const own = compilePlan({ paths: [], list: steps, maxItems: max });
    const items = this.#itemsOf(scanJson(this.bytes, own)!, noPlan);
    return items === "whole" ? undefined : items;
  }

  #itemsOf({ items }: Scanned, plan: CompiledPlan): readonly JsonText[] | "whole" {
    if (items.length === 1 && items[0]!.start === startOfJson(this.bytes)) return "whole";
    return items.map(({ start, end, found }) => {
      const bytes = this.bytes.subarray(start, end);
      return plan === noPlan ? new JsonText(bytes, noPlan) : new JsonText(bytes, plan, found);
    });
  }

  /** The bytes without the members that the plan leaves out. */
  stable(): Uint8Array {
    const { cuts } = this.#scan();
    if (cuts.length === 0) return this.bytes;
    const kept: Uint8Array[] = [];
    for (let at = 0; at <= cuts.length; at += 2)
      kept.push(this.bytes.subarray(at === 0 ? 0 : cuts[at - 1], cuts[at]));
    return Buffer.concat(kept);
  }

  /** A part of a document is scanned when something of it is asked for. It is valid, as all of the document is. */
  #scan(): Scanned {
    this.#scanned ??= scanJson(this.bytes, this.#plan)!;
    return this.#scanned;
  }

  #bytesAt(path: string): Uint8Array | undefined {
    const index = this.#plan.indexes.get(path);
    if (index === undefined) return new JsonText(this.bytes, compilePlan({ paths: [path] })).#bytesAt(path);
    const { starts, ends } = this.#scan();
    return starts[index]! < 0 ? undefined : this.bytes.subarray(starts[index], ends[index]);
  }
}

const noPlan = compilePlan({ paths: [] });

const textOf = (bytes: Uint8Array): string =>
  bytes instanceof Buffer
    ? bytes.toString("utf8")
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");

/** Only texts and numbers are values, and no object is made of the others. */
const parsed = (bytes: Uint8Array | undefined): unknown =>
  bytes === undefined || bytes[0] === 0x7b || bytes[0] === 0x5b ? undefined : JSON.parse(textOf(bytes));

/** A number that was rounded when it was parsed is no value: two different ids must never become one. */
function asText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
