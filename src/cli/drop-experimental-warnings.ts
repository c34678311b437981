/** What the command line uses knowingly. Other warnings are printed. */
const expected = /SQLite is an experimental|Type Stripping is an experimental/;

/** Node calls `process.emitWarning` for them, before any listener could say no. */
export function dropExperimentalWarnings(): void {
  const emit = process.emitWarning;
  process.emitWarning = ((warning: string | Error, ...rest: unknown[]) => {
    const text = typeof warning === "string" ? warning : warning.message;
    if (!expected.test(text)) Reflect.apply(emit, process, [warning, ...rest]);
  }) as typeof emit;
}
