import { afterAll, describe, expect, it } from "vitest";
import { presetNames } from "../../../src/webhooks/index.js";
import { mutatedPreset, openPreset, provenValues } from "../../support/attacks/presets.js";
import { reportProgress } from "../../support/attacks/progress.js";
import { seededRandom } from "../../support/seeded-random.js";
import { times } from "../../support/times.js";

const count = Math.ceil(times(4_000) / presetNames.length);

describe("mutated deliveries of each preset", () => {
  const total = { mutated: 0, same: 0, wrong: 0 };
  afterAll(() =>
    console.log(
      `all presets: ${total.mutated} mutated deliveries, ${total.wrong} wrongly accepted, ${total.same} that say the same`,
    ),
  );

  it.each(presetNames)(
    "FUN-02 %s: nothing is accepted that the provider did not sign",
    async (name) => {
      const { scheme, genuine, others, verify } = await openPreset(name);
      expect(await verify(genuine)).toBe(true);
      const said = new Set([genuine, others[0]!].flatMap((one) => provenValues(scheme, one)));
      const random = seededRandom(presetNames.indexOf(name) + 1);
      const below = (limit: number) => Math.floor(random() * limit);
      const progress = reportProgress(name, count);
      const wrong: unknown[] = [];
      for (let done = 0; done < count; done++) {
        await progress(done);
        const attack = mutatedPreset(genuine, others, below);
        if (!(await verify(attack))) continue;
        const values = provenValues(scheme, attack);
        if (values.length > 0 && values.every((value) => said.has(value))) total.same++;
        else wrong.push({ ...attack, body: attack.body.toString() });
      }
      total.mutated += count;
      total.wrong += wrong.length;
      expect(wrong.slice(0, 3)).toEqual([]);
    },
    600_000,
  );
});
