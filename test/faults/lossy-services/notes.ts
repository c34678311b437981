import { openSync, readFileSync, writeSync } from "node:fs";

/** What a process counts. Each note is one write, so that those of a killed process are kept. */
export interface Notes {
  add(...words: readonly string[]): void;
}

export function openNotes(file: string): Notes {
  const notes = openSync(file, "a");
  return { add: (...words) => void writeSync(notes, `${words.join(" ")}\n`) };
}

/** How often each note was made. */
export function readNotes(file: string): (...words: readonly string[]) => number {
  const counts = new Map<string, number>();
  for (const line of readFileSync(file, "utf8").split("\n")) counts.set(line, (counts.get(line) ?? 0) + 1);
  return (...words) => counts.get(words.join(" ")) ?? 0;
}
