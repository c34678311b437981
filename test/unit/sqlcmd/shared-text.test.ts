import { describe, expect, it } from "vitest";
import { longestSharedRun, sharedText } from "../../../scripts/shared-text.js";

const variables = [
  { name: "CreatedAt", inbox: "first_seen_at", outbox: "created_at" },
  { name: "SeenAt", inbox: "last_seen_at", outbox: "created_at" },
];

describe("what two queues share", () => {
  it("is a text whose differing words are known", () => {
    expect(sharedText("select 1", "select 1", variables)).toBe("select 1");
    expect(sharedText("m.last_seen_at, m.first_seen_at", "m.created_at, m.created_at", variables)).toBe(
      "m.$(SeenAt), m.$(CreatedAt)",
    );
  });

  it.each([
    ["another word", "m.source", "m.id"],
    ["a known word where another stands", "m.first_seen_at", "m.due_at"],
    ["a word within a longer one", "xfirst_seen_at", "xcreated_at"],
    ["one text goes on", "select 1", "select 1, 2"],
    ["other white space", "select 1", "select  1"],
  ])("is nothing with %s", (_, inbox, outbox) => {
    expect(sharedText(inbox, outbox, variables)).toBeUndefined();
    expect(sharedText(outbox, inbox, variables)).toBeUndefined();
  });

  it("is the longest run of lines, wherever it stands", () => {
    const isSame = (one: string, other: string) => one === other;
    expect(longestSharedRun([..."abcdef"], [..."xbcyzdefw"], isSame)).toEqual({ at: [3, 5], length: 3 });
    expect(longestSharedRun(["a"], ["b"], isSame).length).toBe(0);
    expect(longestSharedRun([..."ab"], [..."aB"], (a, b) => a === b.toLowerCase()).length).toBe(2);
  });
});
