import { expect, it } from "vitest";
import { withoutPayload } from "../../../src/base/redaction.js";
import { reportProgress } from "../../support/attacks/progress.js";
import { seededRandom } from "../../support/seeded-random.js";
import { times } from "../../support/times.js";

const random = seededRandom(21);
const below = (limit: number): number => Math.floor(random() * limit);
const letters = 'abAB01 %+\\"é';
const noise = (length: number) => Array.from({ length }, () => letters[below(letters.length)]).join("");
const shortest = 8;

/** Characters of the payload that are left in the text, as many as make a quotation. */
function quoted(text: string, payload: string): string | undefined {
  for (const piece of text.split("[payload]"))
    for (let at = 0; at + shortest <= piece.length; at++)
      if (payload.includes(piece.slice(at, at + shortest))) return piece.slice(at, at + shortest);
  return undefined;
}

it("IBX-127 OBX-106 no eight characters of a payload stay in an error's text", async () => {
  const count = times(1_000);
  const progress = reportProgress("redaction", count);
  const left: string[] = [];
  for (let done = 0; done < count; done++) {
    await progress(done);
    const payload = noise(shortest + below(400));
    const at = below(payload.length);
    const text = `${noise(below(20))}${payload.slice(at, at + below(60))}${noise(below(20))}`;
    const found = quoted(withoutPayload(text, payload), payload);
    if (found !== undefined) left.push(found);
  }
  console.log(`redaction: ${count} random texts, ${left.length} of which quote their payload`);
  expect(left.slice(0, 3)).toEqual([]);
}, 600_000);
