export type Makers<T> = { readonly [Name in keyof T]: () => T[Name] };

/**
 * An object whose properties are made when they are first asked for. A function that only receives would otherwise
 * spend its cold start on the texts of all statements.
 */
export function lazily<T extends object>(makers: Makers<T>): T {
  const made = {} as T;
  for (const name of Object.keys(makers) as (keyof T & string)[]) {
    const get = (): T[typeof name] => {
      const value = makers[name]();
      Object.defineProperty(made, name, { value, enumerable: true });
      return value;
    };
    Object.defineProperty(made, name, { get, enumerable: true, configurable: true });
  }
  return made;
}
