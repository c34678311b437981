import { type Facts, groupBy, type Handling, type LeaseFacts } from "./facts.js";
import {
  fateOf,
  isExplained,
  isFrozenStart,
  lapseOf,
  lastRecordAt,
  leaseEnd,
  liveTimes,
} from "./lease-time.js";
import { isHistoryOfModel } from "./model-history.js";
import type { SoakMessage } from "./records.js";

/** Returns what broke the rule, in words. */
export type Rule = (facts: Facts) => readonly string[];

/** `doneAt` comes from the database's clock. */
const clockToleranceMs = 20;
/** A failed settlement is tried so often before the message is left to the expiry of its lease. */
const settlementTries = 3;
/** A message that ends its process may be handled among others so often. */
const startsAmongOthers = 2;

const nameOf = ({ index, key }: SoakMessage): string =>
  key === null ? `message ${index}` : `message ${index} of key ${key}`;
const where = ({ lease, start }: Handling): string =>
  `${nameOf(lease.message)}, started by process ${lease.process.id} at ${start.at.toFixed(1)}`;

const acksOf = (facts: Facts, message: SoakMessage) =>
  facts
    .leasesOf(message)
    .flatMap(({ owner, settlements }) =>
      settlements
        .filter(({ what, changed }) => what === "ack" && changed.includes(message.seq))
        .map(({ at, sentAt }) => ({ owner, at, sentAt })),
    );

/** Every message is Done, but for poison, which is Dead; and what its handler wrote in a transaction is there once. */
export const everythingEnds: Rule = ({ run, handlingsOf }) => [
  ...run.processes.filter(({ end }) => end === "crashed").map(({ id }) => `process ${id} ended by itself`),
  ...run.messages.flatMap((message) => {
    const { topic, state, effects } = message;
    const expected = topic === "poison" ? "Dead" : "Done";
    if (state !== expected) return [`${nameOf(message)} (${topic}) is ${state}`];
    if (effects !== (topic === "transactional" ? 1 : 0))
      return [`${nameOf(message)} (${topic}) has ${effects} effects`];
    const isHandled = handlingsOf(message).some(({ end }) => end?.outcome === "ok");
    return state === "Done" && !isHandled ? [`${nameOf(message)} is Done and was never handled`] : [];
  }),
];

export const startsOncePerClaim: Rule = ({ strayStarts }) =>
  strayStarts.map(({ seq, owner }) => `row ${seq} started without a claim, or twice, under owner ${owner}`);

export const startsUnderALiveLease: Rule = ({ handlings }) =>
  handlings
    .filter((handling) => handling.start.at >= leaseEnd(handling.lease, handling.start.at))
    .filter((handling) => !isFrozenStart(handling))
    .map((handling) => `${where(handling)} after its lease was over`);

export const neverHandledAfterItsAck: Rule = (facts) =>
  facts.run.messages.flatMap((message) => {
    const confirmed = acksOf(facts, message).map(({ at }) => at);
    const stored = message.doneAt === null ? Number.POSITIVE_INFINITY : message.doneAt + clockToleranceMs;
    const ackedAt = Math.min(stored, ...confirmed);
    return facts
      .handlingsOf(message)
      .filter((handling) => handling.start.at > ackedAt && !isFrozenStart(handling))
      .map((handling) => `${where(handling)}, was acknowledged at ${ackedAt.toFixed(1)}`);
  });

export const acknowledgedOnce: Rule = (facts) =>
  facts.run.messages.flatMap((message) => {
    const acks = acksOf(facts, message);
    if (acks.length > 1) return [`${nameOf(message)} was acknowledged ${acks.length} times`];
    const [ack] = acks;
    return ack !== undefined && ack.owner !== message.doneBy
      ? [`${nameOf(message)} was acknowledged by ${ack.owner}, but is ${message.state} by ${message.doneBy}`]
      : [];
  });

/** Of one key, or of one message without a key. */
export const oneAtATime: Rule = ({ handlings }) => {
  const groups = groupBy(handlings, ({ lease: { message } }) => message.key ?? message.seq);
  return [...groups.values()].flatMap((group) => {
    const times = group
      .flatMap((handling) => liveTimes(handling).map((time) => ({ ...time, handling })))
      .sort((a, b) => a.from - b.from);
    const violations: string[] = [];
    let last = times[0];
    for (const time of times.slice(1)) {
      if (time.handling !== last!.handling && time.from < last!.to)
        violations.push(`${where(time.handling)} while ${where(last!.handling)} ran`);
      if (time.to > last!.to) last = time;
    }
    return violations;
  });
};

/** A message starts after the one before it in its key was acknowledged, or is dead; and that one never starts again. */
export const inOrder: Rule = (facts) => {
  const groups = groupBy(
    facts.run.messages.filter(({ key }) => key !== null),
    ({ key }) => key,
  );
  return [...groups.values()].flatMap((group) => {
    const sorted = group.sort((a, b) => a.index - b.index);
    return sorted.slice(1).flatMap((message, i) => {
      const [first] = facts.handlingsOf(message);
      return first === undefined ? [] : startsBehind(facts, first, sorted[i]!);
    });
  });
};

function startsBehind(facts: Facts, first: Handling, before: SoakMessage): readonly string[] {
  const startedAt = first.start.at;
  const earlier = facts.handlingsOf(before);
  const again = earlier.find((handling) => handling.start.at > startedAt && !isFrozenStart(handling));
  if (again !== undefined) return [`${where(again)}, after ${where(first)}`];
  if (before.state !== "Done") return [];
  const hasEnded = earlier.some(({ end }) => end?.outcome === "ok" && end.at < startedAt);
  const isAcked = acksOf(facts, before).every(({ sentAt }) => sentAt < startedAt);
  return hasEnded && isAcked ? [] : [`${where(first)} before ${nameOf(before)} was acknowledged`];
}

export const everySuccessIsAcknowledged: Rule = (facts) =>
  facts.handlings
    .filter((handling) => fateOf(facts, handling) === "unexplained")
    .map((handling) => `${where(handling)} succeeded, and was neither acknowledged nor lost by a fault`);

/** A lease ends while its process holds the message only if the process could not renew it. */
export const leasesAreKept: Rule = (facts) =>
  facts.handlings.flatMap((handling) => {
    const { run } = facts;
    const { lease } = handling;
    const heldUntil = endOfHold(facts, handling);
    const lapse = lapseOf(lease, heldUntil);
    if (lapse === undefined || isExplained(run, lease.process, lapse)) return [];
    const failed = lease.failedCalls.filter(({ what }) => what === "renew").length;
    return [
      `${where(handling)}: its lease was over at ${lapse.at.toFixed(1)}, and it was held until ${heldUntil.toFixed(1)} (${failed} failed renewals)`,
    ];
  });

/**
 * A settlement that the database executes locks the row, so nobody else can have it, though its process may hear of that
 * later: `doneAt` is when an acknowledgement began, and a renewal that finds the message settled shows that another
 * settlement had been executed, as a later claim does. A transaction that acknowledges its message holds it by the same lock.
 */
function endOfHold(facts: Facts, { lease, end }: Handling): number {
  const { message, owner, settlements, lostRenewals, process } = lease;
  const endedAt = end?.at ?? lastRecordAt(process);
  if (message.topic === "transactional") return endedAt;
  const settlement = settlements.at(-1);
  const confirmedAt = settlement?.at ?? endedAt;
  const isAcked = message.doneBy === owner;
  if (!isAcked && !settlement?.changed.includes(message.seq)) return confirmedAt;
  const executedAt = isAcked && message.doneAt !== null ? message.doneAt : confirmedAt;
  const claims = facts.leasesOf(message).filter(({ claimedAt }) => claimedAt > lease.claimedAt);
  return Math.min(
    confirmedAt,
    executedAt,
    ...lostRenewals.map(({ at }) => at),
    ...claims.map(({ claimedAt }) => claimedAt),
  );
}

/** Nobody takes a message whose lease is live by the clock of its owner. */
export const liveLeasesAreNotLost: Rule = ({ leases }) =>
  leases.flatMap((lease) => {
    const { message, owner, process } = lease;
    const settled = lease.settlements.some(({ changed }) => changed.includes(message.seq));
    const isOwn = settled || message.doneBy === owner || process.end !== "left";
    const lost = [
      ...lease.lostRenewals,
      ...lease.settlements.filter((one) => one.lost.includes(message.seq)),
    ];
    const live = isOwn ? undefined : lost.find(({ at }) => lapseOf(lease, at) === undefined);
    if (live === undefined) return [];
    return [`${nameOf(message)}: process ${process.id} lost its live lease at ${live.at.toFixed(1)}`];
  });

/**
 * A claim that brings a message whose settlement is under way does not start it, unless the settlement turns out to have
 * been executed before the claim and to have made the message due again: then it starts after the confirmation of that.
 */
export const notHandledWhileItIsSettled: Rule = (facts) =>
  facts.handlings.flatMap((handling) => {
    const { lease } = handling;
    const settling = facts
      .handlingsOf(lease.message)
      .find((earlier) => earlier !== handling && isSettlingAt(facts, earlier, handling));
    return settling === undefined ? [] : [`${where(handling)} while its settlement was under way`];
  });

/** Whether the process of the later claim was settling the message for good when that claim returned. */
function isSettlingAt(facts: Facts, { lease, end }: Handling, later: Handling): boolean {
  const { claimedAt, process, message } = later.lease;
  if (lease.process !== process || end === undefined || end.at >= claimedAt) return false;
  if (message.topic === "transactional") return false; // settled when its handler ended, or not at all
  const settled = lease.settlements.find(({ at }) => at >= end.at);
  const tries = lease.failedCalls.filter(({ what, at }) => what !== "renew" && at < claimedAt).length;
  if (tries >= settlementTries || (settled !== undefined && settled.at <= claimedAt)) return false;
  const isDueAgain = settled !== undefined && settled.what !== "ack" && settled.changed.includes(message.seq);
  if (isDueAgain && settled.at <= later.start.at) return false;
  // A handler whose lease was known to be lost is not settled.
  const wasClaimedMeanwhile = facts
    .leasesOf(message)
    .some((other) => other !== lease && other.process === process && isBetween(other.claimedAt, lease, end));
  return !wasClaimedMeanwhile && !lease.lostRenewals.some(({ at }) => at <= end.at);
}

const isBetween = (at: number, lease: LeaseFacts, end: { readonly at: number }): boolean =>
  at > lease.claimedAt && at <= end.at;

/** Poison is handled by itself from its third start on. */
export const poisonRunsByItself: Rule = (facts) => {
  const byProcess = groupBy(facts.handlings, ({ lease }) => lease.process);
  return facts.run.messages
    .filter(({ topic }) => topic === "poison")
    .flatMap((message) => facts.handlingsOf(message).slice(startsAmongOthers))
    .flatMap((poison) => {
      const { at } = poison.start;
      const beside = byProcess
        .get(poison.lease.process)!
        .find(({ start, end }) => start.at < at && (end === undefined || end.at > at));
      return beside === undefined ? [] : [`${where(poison)} beside ${where(beside)}`];
    });
};

/** Claims, renewals and settlements of each message are steps of the model in `proof`. */
export const followsTheModel: Rule = (facts) =>
  facts.run.messages
    .filter((message) => !isHistoryOfModel(facts, message))
    .map((message) => `${nameOf(message)}: no order of its calls is a behaviour of the model of leases`);
