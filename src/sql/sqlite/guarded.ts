/** What may be called at any time: it only lets go of an iterator's rows that are not read yet. */
const letsGo: PropertyKey = "return";

/**
 * A connection that calls `check` before each call, its own and those of its statements and iterators. Each call is checked,
 * and not only the reading of the connection: code that outlives its transaction may have kept any of them.
 */
export function guarded<T extends object>(target: T, check: () => void): T {
  const proxy: T = new Proxy(target, {
    get(_target, name) {
      // The driver's methods and getters work on its own objects alone.
      const value: unknown = Reflect.get(target, name, target);
      if (name === "constructor") return value;
      if (typeof value === "function") return guardedMethod(name, value);
      return isObject(value) ? guarded(value, check) : value;
    },
    set: (_target, name, value) => Reflect.set(target, name, value, target),
  });
  const guardedMethod =
    (name: PropertyKey, method: CallableFunction) =>
    (...args: readonly unknown[]): unknown => {
      if (name !== letsGo) check();
      const result: unknown = Reflect.apply(method, target, args);
      if (result === target) return proxy;
      return givesAccess(name, result) ? guarded(result, check) : result;
    };
  return proxy;
}

/** Statements, and iterators with what their `map` and `filter` return: a text may run at the first `next` only. */
const givesAccess = (method: PropertyKey, result: unknown): result is object =>
  isObject(result) &&
  (method === "prepare" ||
    method === "createTagStore" ||
    typeof (result as Partial<Iterator<unknown>>).next === "function");

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
