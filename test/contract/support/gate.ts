/** A promise that a test resolves by `open`. */
export function gate<T = void>(): { readonly promise: Promise<T>; open(value: T): void } {
  let open: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}
