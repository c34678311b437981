type Primitive = string | number | boolean | null | undefined;

/** Values that JSON has no form for, or that come back as something else. */
type Unserialisable =
  | bigint
  | symbol
  | ((...args: never[]) => unknown)
  | Date
  | RegExp
  | Error
  | Promise<unknown>
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | (WeakKey & ArrayBufferView);

/** The type itself where JSON can hold it, and `never` in the place of what JSON cannot hold. */
export type JsonOf<T> = unknown extends T
  ? T
  : T extends Primitive
    ? T
    : T extends Unserialisable
      ? never
      : { [Name in keyof T]: JsonOf<T[Name]> };

/** What a schema has to be in addition when its input cannot be written as JSON: nothing is, so the compiler refuses it. */
export interface NotJson {
  readonly "the schema's input cannot be written as JSON": never;
}
