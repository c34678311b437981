/** An object with only those properties that are not undefined. */
export type Defined<T extends object> = {
  [Name in keyof T as undefined extends T[Name] ? never : Name]: T[Name];
} & {
  [Name in keyof T as undefined extends T[Name] ? Name : never]?: Exclude<T[Name], undefined>;
};

/**
 * Leaves out properties that are undefined. An optional property that is absent and one that is present but undefined
 * are different things to the compiler (`exactOptionalPropertyTypes`) and to `{ ...defaults, ...options }`.
 *
 * @example
 * openDatabase(url, omitUndefined({ maxConnections }));
 */
export function omitUndefined<T extends object>(values: T): Defined<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<T>;
}
