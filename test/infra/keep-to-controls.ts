import { expect } from "vitest";
import { newOwnerToken, type Outbox } from "../../src/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";

/** The functions' user claims from an outbox that an operator pauses, resumes and limits. */
export async function keepToControls(functions: Outbox, operator: Outbox): Promise<void> {
  const owner = newOwnerToken();
  const by = { by: "alice" };
  const topic = "controlled";
  for (const payload of ["1", "2", "3"]) await functions.enqueue({ topic, payload });
  await operatorsOf(operator).pause({ topic }, by);
  const others = await functions.claim({ owner });
  expect(others.filter((message) => message.topic === topic)).toEqual([]);
  expect(await operatorsOf(functions).controls()).toMatchObject([{ name: topic, waiting: 3 }]);
  await operatorsOf(operator).resume({ topic }, by);
  await operatorsOf(operator).limit({ topic, perSecond: 0.01 }, by);
  expect(await functions.claim({ owner })).toMatchObject([{ payload: "1" }]);
  expect(await operatorsOf(operator).controls()).toMatchObject([{ name: topic, waiting: 2 }]);
  expect(await operatorsOf(operator).limit({ topic, perSecond: null }, by)).toBeNull();
  expect(await functions.claim({ owner })).toHaveLength(2);
}
