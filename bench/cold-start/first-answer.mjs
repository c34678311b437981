// Loads a bundle (the argument), gives it one event (BENCH_EVENT), prints the status, and ends.
const { handler } = await import(process.argv[2]);
const context = { getRemainingTimeInMillis: () => 30_000 };
const { statusCode } = await handler(JSON.parse(process.env.BENCH_EVENT), context);
process.stdout.write(`status ${statusCode}\n`, () => process.exit());
