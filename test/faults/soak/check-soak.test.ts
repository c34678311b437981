import { describe, expect, it } from "vitest";
import { checkSoak } from "./check-soak.js";
import type { RecordOf, SoakMessage, SoakProcess, SoakRecord, SoakRun } from "./records.js";
import * as rules from "./rules.js";

const leaseMs = 1_000;

const message = (seq: number, over: Partial<SoakMessage> = {}): SoakMessage => ({
  seq,
  index: seq,
  key: null,
  topic: "steady",
  state: "Done",
  doneAt: null,
  doneBy: null,
  effects: 0,
  ...over,
});

const claim = (at: number, owner: string, ...seqs: number[]): RecordOf<"claim"> => ({
  kind: "claim",
  sentAt: at,
  at,
  owner,
  seqs,
});
const renew = (at: number, owner: string, seq: number, isLost = false): RecordOf<"renew"> => ({
  kind: "renew",
  sentAt: at,
  at,
  owner,
  changed: isLost ? [] : [seq],
  lost: isLost ? [seq] : [],
});
const start = (at: number, owner: string, seq: number, seenAt = at): RecordOf<"start"> => ({
  kind: "start",
  at,
  owner,
  seq,
  seenAt,
});
const end = (at: number, owner: string, seq: number, outcome: "ok" | "error" = "ok"): RecordOf<"end"> => ({
  kind: "end",
  at,
  owner,
  seq,
  outcome,
});
const ack = (sentAt: number, at: number, owner: string, seq: number, isLost = false): RecordOf<"settle"> => ({
  kind: "settle",
  what: "ack",
  sentAt,
  at,
  owner,
  changed: isLost ? [] : [seq],
  lost: isLost ? [seq] : [],
});
const gap = (from: number, at: number): RecordOf<"gap"> => ({ kind: "gap", from, at });
const seen = (at: number): RecordOf<"gap"> => gap(at, at);

const abandon = (sentAt: number, at: number, owner: string, seq: number): RecordOf<"settle"> => ({
  ...ack(sentAt, at, owner, seq),
  what: "abandon",
});
/** A message that failed, whose abandoning is confirmed late: its own process has claimed it again by then. */
const abandonedAndClaimed = (startedAgainAt: number): readonly SoakProcess[] => [
  left(
    "p",
    claim(0, "a", 1),
    start(1, "a", 1),
    end(10, "a", 1, "error"),
    claim(300, "b", 1),
    renew(640, "b", 1),
    ...[abandon(11, 1_500, "a", 1), start(startedAgainAt, "b", 1)].sort((one, other) => one.at - other.at),
    end(1_510, "b", 1),
    ack(1_511, 1_520, "b", 1),
  ),
];

/** Claimed at `at`, handled from 1 to 10 ms after it, acknowledged at 20. */
const handled = (at: number, owner: string, seq: number): readonly SoakRecord[] => [
  claim(at, owner, seq),
  start(at + 1, owner, seq),
  end(at + 10, owner, seq),
  ack(at + 11, at + 20, owner, seq),
];

const left = (id: string, ...records: readonly SoakRecord[]): SoakProcess => ({ id, end: "left", records });
const killed = (id: string, ...records: readonly SoakRecord[]): SoakProcess => ({
  id,
  end: "killed",
  records,
});

type Case = readonly [what: string, messages: readonly SoakMessage[], processes: readonly SoakProcess[]];

const brokenRules = ([, messages, processes]: Case, stalls: SoakRun["stalls"] = []): readonly string[] =>
  Object.keys(checkSoak({ leaseMs, messages, processes, stalls }).violations).sort();

const done = (seq: number, doneBy: string, over: Partial<SoakMessage> = {}): SoakMessage =>
  message(seq, { doneBy, ...over });

describe("the checker of the soak finds", () => {
  const found: readonly (readonly [rule: string, ...Case])[] = [
    ["everythingEnds", "a message that is not done", [message(1, { state: "Processing" })], []],
    [
      "everythingEnds",
      "a dead message that is no poison",
      [message(1, { state: "Dead" })],
      [killed("p", claim(0, "a", 1), start(1, "a", 1))],
    ],
    ["everythingEnds", "a Done message that nobody handled", [done(1, "a")], []],
    [
      "everythingEnds",
      "a transaction that took effect twice",
      [done(1, "a", { topic: "transactional", effects: 2 })],
      [left("p", ...handled(0, "a", 1))],
    ],
    [
      "everythingEnds",
      "a process that ended by itself",
      [done(1, "a")],
      [{ ...left("p", ...handled(0, "a", 1)), end: "crashed" }],
    ],
    [
      "startsOncePerClaim",
      "a second start under one claim",
      [done(1, "a")],
      [left("p", claim(0, "a", 1), start(1, "a", 1), ...handled(0, "a", 1).slice(1))],
    ],
    [
      "startsUnderALiveLease",
      "a start after the end of the lease, though the process ran before it",
      [done(1, "b")],
      [
        left("p", claim(0, "a", 1), gap(5, 1_900), start(2_000, "a", 1, 1_950), end(2_001, "a", 1, "error")),
        left("q", ...handled(2_100, "b", 1)),
      ],
    ],
    [
      "neverHandledAfterItsAck",
      "a start after the acknowledgement was confirmed",
      [done(1, "a")],
      [left("p", ...handled(0, "a", 1), claim(50, "b", 1), start(51, "b", 1), end(52, "b", 1, "error"))],
    ],
    [
      "neverHandledAfterItsAck",
      "a start after the acknowledgement was stored",
      [done(1, "a", { doneAt: 100 })],
      [
        killed("p", claim(0, "a", 1), start(1, "a", 1), end(10, "a", 1)),
        left("q", claim(150, "b", 1), start(151, "b", 1), end(152, "b", 1, "error")),
      ],
    ],
    [
      "acknowledgedOnce",
      "an acknowledgement that the database gave to another",
      [done(1, "z")],
      [left("p", ...handled(0, "a", 1))],
    ],
    [
      "acknowledgedOnce",
      "two acknowledgements",
      [done(1, "b")],
      [left("p", ...handled(0, "a", 1)), left("q", ...handled(100, "b", 1))],
    ],
    [
      "oneAtATime",
      "two messages of a key at once",
      [done(1, "a", { key: "k" }), done(2, "b", { key: "k" })],
      [left("p", ...handled(0, "a", 1)), left("q", ...handled(5, "b", 2))],
    ],
    [
      "oneAtATime",
      "a message that two processes handle at once",
      [done(1, "a")],
      [
        left("p", ...handled(0, "a", 1)),
        left("q", claim(2, "b", 1), start(3, "b", 1), end(8, "b", 1, "error")),
      ],
    ],
    [
      "oneAtATime",
      "a message that is taken from a killed process before its lease is over",
      [done(1, "b")],
      [killed("p", claim(0, "a", 1), start(1, "a", 1)), left("q", ...handled(900, "b", 1))],
    ],
    [
      "inOrder",
      "a message before its predecessor",
      [done(1, "a", { key: "k" }), done(2, "b", { key: "k" })],
      [left("p", ...handled(100, "a", 1)), left("q", ...handled(0, "b", 2))],
    ],
    [
      "inOrder",
      "a message before the acknowledgement of its predecessor",
      [done(1, "a", { key: "k" }), done(2, "b", { key: "k" })],
      [
        left("p", claim(0, "a", 1), start(1, "a", 1), end(2, "a", 1), ack(50, 60, "a", 1)),
        left("q", ...handled(12, "b", 2)),
      ],
    ],
    [
      "inOrder",
      "a message behind which the next of its key has started, and which starts again",
      [message(1, { key: "k", topic: "poison", state: "Dead" }), done(2, "b", { key: "k" })],
      [
        killed("p", claim(0, "a", 1), start(1, "a", 1)),
        left("q", ...handled(1_100, "b", 2)),
        killed("r", claim(1_200, "c", 1), start(1_201, "c", 1)),
      ],
    ],
    [
      "everySuccessIsAcknowledged",
      "a success that was never settled by a process that lived on",
      [done(1, "b")],
      [
        left("p", claim(0, "a", 1), start(1, "a", 1), end(10, "a", 1), seen(20)),
        left("q", ...handled(1_100, "b", 1)),
      ],
    ],
    [
      "leasesAreKept",
      "a lease that was not renewed while its message was being settled",
      [done(1, "a")],
      [left("p", claim(0, "a", 1), start(1, "a", 1), end(10, "a", 1), ack(11, 1_600, "a", 1))],
    ],
    [
      "leasesAreKept",
      "a lease that was not renewed before its acknowledgement reached the database",
      [done(1, "a", { doneAt: 1_500 })],
      [left("p", claim(0, "a", 1), start(1, "a", 1), end(10, "a", 1), ack(11, 1_600, "a", 1))],
    ],
    [
      "leasesAreKept",
      "a lease that was over after a stop too short to explain it",
      [done(1, "a")],
      [
        left(
          "p",
          claim(0, "a", 1),
          start(1, "a", 1),
          end(10, "a", 1),
          gap(100, 300),
          renew(1_400, "a", 1),
          ack(11, 1_600, "a", 1),
        ),
      ],
    ],
    [
      "liveLeasesAreNotLost",
      "a live lease that another process took",
      [done(1, "b")],
      [
        left("p", claim(0, "a", 1), start(1, "a", 1), renew(400, "a", 1, true), end(410, "a", 1, "error")),
        left("q", ...handled(500, "b", 1)),
      ],
    ],
    [
      "notHandledWhileItIsSettled",
      "a message that its process claims and handles again while it acknowledges it",
      [done(1, "b")],
      [
        left(
          "p",
          claim(0, "a", 1),
          start(1, "a", 1),
          end(10, "a", 1),
          gap(20, 1_100),
          claim(1_100, "b", 1),
          start(1_101, "b", 1),
          end(1_102, "b", 1),
          ack(11, 1_200, "a", 1, true),
          ack(1_201, 1_210, "b", 1),
        ),
      ],
    ],
    [
      "notHandledWhileItIsSettled",
      "a message that is claimed again after it was abandoned, and starts before that is confirmed",
      [done(1, "b")],
      abandonedAndClaimed(1_499),
    ],
    [
      "poisonRunsByItself",
      "a neighbour of a poison message at its third start",
      [message(1, { topic: "poison", state: "Dead" }), done(2, "z")],
      [
        killed("p", claim(0, "a", 1), start(1, "a", 1)),
        killed("q", claim(1_100, "b", 1), start(1_101, "b", 1)),
        killed("r", claim(2_200, "c", 1), claim(2_200, "y", 2), start(2_201, "y", 2), start(2_202, "c", 1)),
        left("s", ...handled(3_300, "z", 2)),
      ],
    ],
    [
      "followsTheModel",
      "a renewal of a lease that another process had taken",
      [done(1, "b")],
      [left("p", claim(0, "a", 1), renew(1_300, "a", 1)), left("q", ...handled(1_200, "b", 1))],
    ],
    [
      "followsTheModel",
      "an abandoning of a message that another process had acknowledged",
      [done(1, "b")],
      [left("p", claim(0, "a", 1), abandon(1_300, 1_310, "a", 1)), left("q", ...handled(1_200, "b", 1))],
    ],
    [
      "followsTheModel",
      "a claim of a message that was acknowledged",
      [done(1, "a")],
      [left("p", ...handled(0, "a", 1)), killed("q", claim(1_200, "b", 1))],
    ],
    [
      "followsTheModel",
      "a message that is done by a worker that had lost it",
      [done(1, "a")],
      [killed("p", claim(0, "a", 1)), killed("q", claim(1_200, "b", 1))],
    ],
  ];
  const isOfModel = ([rule]: readonly [string, ...unknown[]]) => rule === "followsTheModel";
  it.each(found.filter((one) => !isOfModel(one)))("%s: %s", (rule, ...one) => {
    expect(brokenRules(one)).toContain(rule);
  });
  it.each(found.filter(isOfModel))("ADD-28 %s: %s", (rule, ...one) => {
    expect(brokenRules(one)).toContain(rule);
  });

  it("what breaks each of its rules", () => {
    expect(new Set(found.map(([rule]) => rule))).toEqual(new Set(Object.keys(rules)));
  });

  it("ADD-28 nothing where the order of calls at the same time, or what nobody recorded, explains them", () => {
    const sent = { ...ack(1_100, 1_400, "a", 1), changed: [], lost: [1] };
    const histories: readonly (readonly SoakProcess[])[] = [
      // the acknowledgement came before the claim, though it was confirmed after it
      [left("p", claim(0, "a", 1), ack(10, 1_400, "a", 1, true)), left("q", ...handled(1_200, "b", 1))],
      // killed before it could record its acknowledgement
      [killed("p", claim(0, "a", 1)), killed("q", claim(1_200, "b", 1))],
      // its first try changed the message, and only the second was answered
      [left("p", claim(0, "b", 1), { ...sent, owner: "b" })],
    ];
    for (const processes of histories)
      expect(brokenRules(["", [done(1, "b")], processes])).not.toContain("followsTheModel");
  });

  it("no excuse in a database that served nobody at another time", () => {
    const one: Case = [
      "",
      [done(1, "a")],
      [left("p", claim(0, "a", 1), start(1, "a", 1), end(10, "a", 1), ack(11, 1_600, "a", 1))],
    ];
    expect(brokenRules(one, [{ from: 1_100, to: 1_600 }])).toEqual(["leasesAreKept"]);
    expect(brokenRules(one, [{ from: 200, to: 900 }])).toEqual([]);
  });
});
