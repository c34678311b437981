import { afterAll, describe, expect, it } from "vitest";
import { coveredBy, isSameMessage, mutated } from "../../support/attacks/mutations.js";
import { reportProgress } from "../../support/attacks/progress.js";
import { type AttackTarget, attackTargets, openTarget, signedFor } from "../../support/attacks/targets.js";
import { twilioAmbiguity, twilioMutation } from "../../support/attacks/twilio.js";
import { seededRandom } from "../../support/seeded-random.js";
import { times } from "../../support/times.js";

const count = Math.ceil(times(5_000) / attackTargets.length);

/** Deliveries that the same key has signed: their proofs belong to another body, id or URL. */
const othersOf = (target: AttackTarget) => [
  signedFor(target, { body: `${target.body} ` }),
  signedFor(target, { messageId: "m-2" }),
  signedFor(target, { url: "https://hooks.example.com/webhooks/other" }),
  signedFor(target, { secrets: target.wrongSecret }),
];

describe("mutated signatures", () => {
  const total = { mutated: 0, wrong: 0 };
  afterAll(() =>
    console.log(`all schemes: ${total.mutated} mutated deliveries, ${total.wrong} wrongly accepted`),
  );

  it.each(attackTargets.map((target) => [target.name, target] as const))(
    "FUN-02 %s: no mutation is accepted, except one that means the same",
    async (name, target) => {
      const opened = await openTarget(target);
      const { verify, genuine } = opened;
      expect(await verify(genuine)).toBe(true);
      const covered = coveredBy(opened);
      const others = othersOf(target);
      const random = seededRandom(name.length * 1_000 + attackTargets.indexOf(target));
      const below = (limit: number) => Math.floor(random() * limit);
      const isForm = covered.url && !target.body.startsWith("{");
      const wrong: unknown[] = [];
      const progress = reportProgress(name, count);
      let same = 0;
      for (let done = 0; done < count; done++) {
        await progress(done);
        const attack =
          isForm && below(2) === 0
            ? twilioMutation(genuine, below)
            : mutated(genuine, covered, others, below);
        if (!(await verify(attack))) continue;
        const isSame = isSameMessage(attack, genuine, opened);
        if (isSame || (isForm && twilioAmbiguity(attack, genuine) !== undefined)) same++;
        else wrong.push({ ...attack, body: attack.body.toString() });
      }
      total.mutated += count;
      total.wrong += wrong.length;
      console.log(
        `${name}: ${count} mutated deliveries, ${wrong.length} wrongly accepted, ${same} that say the same`,
      );
      expect(wrong.slice(0, 3)).toEqual([]);
    },
    600_000,
  );
});
