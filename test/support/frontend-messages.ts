/** Finds the messages in what a PostgreSQL client sends: a type and a length each, but for the first, which has no type. */
export function frontendReader(onMessage: (type: string, body: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  let started = false;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const typeLength = started ? 1 : 0;
      if (rest.length < typeLength + 4) return;
      const end = typeLength + rest.readInt32BE(typeLength);
      if (rest.length < end) return;
      if (started) onMessage(String.fromCharCode(rest[0]!), rest.subarray(typeLength + 4, end));
      started = true;
      rest = rest.subarray(end);
    }
  };
}
