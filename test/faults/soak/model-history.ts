import { modelFile } from "../../../proof/checks.js";
import { loadModel } from "../../../proof/promela.js";
import type { Facts } from "./facts.js";
import type { Settling, SoakMessage } from "./records.js";

/** A call of the store that concerns the message. It took effect between the two times, if it did. */
interface Call {
  readonly what: "claim" | "renew" | Settling;
  readonly owner: string;
  /** `unknown`: it failed, so it may have changed the message or not, and also later. */
  readonly outcome: "changed" | "lost" | "unknown";
  readonly from: number;
  readonly to: number;
}

/** One message; so many attempts and tokens that neither runs out: what the records do not say is not asked. */
const sizes = { N: 1, T: 8, BATCH: 1, MAX: 250, RETURNS: 0 };

const model = loadModel(modelFile, sizes);
model.act("enqueue", [0]);
const enqueued = model.state.slice();

/** Whether the calls, in some order that their times allow, and what nobody recorded, are steps of the model of leases. */
export function isHistoryOfModel(facts: Facts, message: SoakMessage): boolean {
  const calls = callsOf(facts, message);
  const start: Moment = { state: enqueued, left: calls, tokens: new Map(), ackedBy: null };
  const open: Moment[] = [start];
  const seen = new Set<string>();
  for (let moment = open.pop(); moment !== undefined; moment = open.pop()) {
    const { left } = moment;
    if (left.every(({ outcome }) => outcome === "unknown") && endsAs(moment, message)) return true;
    const name = JSON.stringify([
      [...moment.state],
      left.map((call) => calls.indexOf(call)),
      [...moment.tokens],
    ]);
    if (seen.has(name)) continue;
    seen.add(name);
    const soonest = Math.min(...left.map(({ to }) => to));
    for (const call of left) if (call.from <= soonest) open.push(...after(moment, call, message));
  }
  return false;
}

function callsOf(facts: Facts, message: SoakMessage): readonly Call[] {
  const { seq } = message;
  return facts.leasesOf(message).flatMap(({ owner, grants, lostRenewals, settlements, failedCalls }) => [
    ...grants.map(({ sentAt, from }, index): Call => {
      const what = index === 0 ? "claim" : "renew";
      return { what, owner, outcome: "changed", from: sentAt, to: from };
    }),
    ...lostRenewals.map(
      ({ sentAt, at }): Call => ({ what: "renew", owner, outcome: "lost", from: sentAt, to: at }),
    ),
    ...settlements.map(({ what, changed, sentAt, at }): Call => {
      const outcome = changed.includes(seq) ? "changed" : "lost";
      return { what, owner, outcome, from: sentAt, to: at };
    }),
    ...failedCalls.map(({ what, sentAt }): Call => {
      return { what, owner, outcome: "unknown", from: sentAt, to: Number.POSITIVE_INFINITY };
    }),
  ]);
}

/** The model's state, and the calls that come after it. */
interface Moment {
  readonly state: Uint8Array;
  readonly left: readonly Call[];
  /** The model's token of each owner. */
  readonly tokens: ReadonlyMap<string, number>;
  readonly ackedBy: string | null;
}

/** What can be so after the call, or nothing where the model forbids it. */
function after(moment: Moment, call: Call, message: SoakMessage): readonly Moment[] {
  const left = moment.left.filter((other) => other !== call);
  if (call.what === "claim") return claimed({ ...moment, left }, call, message);
  const t = moment.tokens.get(call.owner);
  if (t === undefined) return [];
  const owns = moment.state[offsetOf("owner")] === t;
  const effect = (): Moment[] => {
    const args = call.what === "ack" ? [t, 0, call.outcome === "unknown" ? 0 : 1, none] : [t, 0];
    const state = acted(moment.state, [[call.what, args]]);
    const ackedBy = call.what === "ack" ? call.owner : moment.ackedBy;
    return state === undefined ? [] : [{ ...moment, left, state, ackedBy }];
  };
  const nothing: Moment = { ...moment, left };
  if (!owns) return call.outcome === "changed" ? [] : [nothing];
  if (call.outcome === "changed") return effect();
  if (call.outcome === "unknown") return [nothing, ...effect()];
  // its answer was lost, and the store has sent it again; or the reaper has ended the lease
  const reaped = acted(moment.state, [...ticks, ["reap", [0]]]);
  return [...effect(), ...(reaped === undefined ? [] : [{ ...nothing, state: reaped }])];
}

const none = 255;
type Act = readonly [action: string, args: readonly number[]];
/** Until any lease is over and any back-off has passed. */
const ticks: readonly Act[] = Array.from({ length: 4 }, () => ["tick", []]);

/** Under a token that nobody has. A worker without further calls needs its own no more, but for one whose ack nobody recorded. */
function claimed(moment: Moment, { owner }: Call, { doneBy }: SoakMessage): readonly Moment[] {
  const isOver = (other: string) => other !== doneBy && !moment.left.some((call) => call.owner === other);
  const tokens = new Map([...moment.tokens].filter(([other]) => !isOver(other)));
  const rowOwner = moment.state[offsetOf("owner")]!;
  const over = [...moment.tokens].filter(([other]) => isOver(other)).map(([, t]) => t);
  const used = new Set([...tokens.values(), rowOwner]);
  const t = Array.from({ length: sizes.T }, (_, index) => index + 1).find((one) => !used.has(one));
  if (t === undefined)
    throw new Error("More workers than the model has tokens believe that they hold the message.");
  const crashes = over.map((one): Act => ["crash", [one]]);
  const state = acted(moment.state, [...ticks, ["claim", [t, 1, none]]], crashes);
  return state === undefined ? [] : [{ ...moment, state, tokens: tokens.set(owner, t) }];
}

/** The state after the steps, or undefined where one is not possible. Of those before them, any may be impossible. */
function acted(from: Uint8Array, steps: readonly Act[], before: readonly Act[] = []): Uint8Array | undefined {
  model.state.set(from);
  for (const [action, args] of before) model.act(action, args);
  return steps.every(([action, args]) => model.act(action, args)) ? model.state.slice() : undefined;
}

const offsetOf = (name: string): number => model.variables[name]!.byteOffset - model.state.byteOffset;

/** A process that was killed may have settled the message and not recorded it. What died of its attempts is no call of anybody's. */
function endsAs({ state, tokens, ackedBy }: Moment, { state: end, doneBy }: SoakMessage): boolean {
  const { READY, DEAD, DONE } = model.constants;
  const status = state[offsetOf("status")];
  if (end === "Dead") return status === DEAD || status === READY;
  if (end !== "Done") return status === READY;
  if (status === DONE) return doneBy === null || ackedBy === null || doneBy === ackedBy;
  return doneBy !== null && status === READY && state[offsetOf("owner")] === tokens.get(doneBy);
}
