import { createPrivateKey, type KeyObject } from "node:crypto";
import type { Budget } from "../../base/async.js";
import { sleep } from "../../base/async.js";
import { safeReason } from "../../base/logger.js";
import { InvalidOperationError } from "../../errors.js";
import { fetchCause, readBody } from "../../http/body.js";
import { signedJwt } from "../signing/signed-jwt.js";

export interface GithubCall {
  readonly apiUrl: string;
  readonly clock: () => Date;
  readonly token: string;
  readonly budget: Budget;
}

export interface GithubAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The time is used up, or GitHub wants more requests only after it. */
export class OutOfTime extends Error {}

/** For one request, so that no answer makes a loop. */
const maxWaits = 5;

/** Sends a request to GitHub. Waits where GitHub asks for it and the time suffices; else it throws OutOfTime. */
export async function callGithub(
  method: "GET" | "POST",
  path: string,
  call: GithubCall,
): Promise<GithubAnswer> {
  const { budget, clock } = call;
  for (let waits = 0; ; waits++) {
    const answer = await send(method, path, call);
    const waitMs = limitedForMs(answer, clock());
    if (waitMs === undefined) return answer;
    if (waits === maxWaits || waitMs >= budget.remainingMs()) throw new OutOfTime();
    await sleep(waitMs, budget.signal).catch(() => {
      throw new OutOfTime();
    });
  }
}

const requestMs = 10_000;
/** A timer may fire a little before its time. */
const leastMs = 10;
/** A page of 100 deliveries has about 40 KB. */
const maxAnswerBytes = 4 * 1_048_576;

async function send(method: string, path: string, call: GithubCall): Promise<GithubAnswer> {
  const { apiUrl, token, budget } = call;
  const isOver = (): boolean => budget.signal.aborted || budget.remainingMs() < leastMs;
  const failure = (problem: string): Error =>
    isOver() ? new OutOfTime() : new InvalidOperationError(`${new URL(apiUrl).host} ${problem}.`);
  if (isOver()) throw new OutOfTime();
  const limit = AbortSignal.timeout(Math.ceil(Math.min(requestMs, budget.remainingMs())));
  const response = await fetch(`${apiUrl.replace(/\/+$/, "")}${path}`, {
    method,
    headers: {
      accept: "application/vnd.github+json",
      authorization: `Bearer ${token}`,
      "user-agent": "oncebox",
      "x-github-api-version": "2022-11-28",
    },
    redirect: "manual", // another host must not get the token
    signal: AbortSignal.any([limit, budget.signal]),
  }).catch((error: unknown) => {
    throw failure(`could not be reached: ${safeReason(fetchCause(error))}`);
  });
  const body = await readBody(response, { maxBytes: maxAnswerBytes });
  if (typeof body === "string") throw failure(`sent an answer that is ${body}`);
  return { status: response.status, headers: response.headers, text: Buffer.from(body).toString("utf8") };
}

/** Without a time in the answer GitHub asks for a minute. */
const unknownWaitMs = 60_000;

/** Returns how long GitHub asks to wait, or undefined where it did what was asked. */
export function limitedForMs(
  { status, headers }: Pick<GithubAnswer, "status" | "headers">,
  now: Date,
): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const after = headers.get("retry-after");
  if (after !== null && /^\d{1,9}$/.test(after)) return Number(after) * 1_000;
  const reset = Number(headers.get("x-ratelimit-reset"));
  if (headers.get("x-ratelimit-remaining") === "0" && reset > 0)
    return Math.max(1_000, reset * 1_000 - now.getTime());
  return status === 429 ? unknownWaitMs : undefined;
}

/** GitHub accepts 10 minutes, counted by its own clock. */
const lifeSeconds = 540;
/** Before now, for a clock that is ahead of GitHub's. */
const driftSeconds = 60;

/** Returns the token by which a GitHub App proves itself: a JWT that its private key signs. */
export function githubAppToken(appId: number | string, privateKey: string, now: Date): string {
  const seconds = Math.floor(now.getTime() / 1_000);
  const claims = { iat: seconds - driftSeconds, exp: seconds + lifeSeconds, iss: String(appId) };
  return signedJwt("RS256", claims, appKeyOf(privateKey));
}

/** An environment variable often has its line ends written as \n. */
function appKeyOf(text: string): KeyObject {
  try {
    return createPrivateKey(text.replaceAll("\\n", "\n"));
  } catch {
    // not the error itself, which may quote the key
    throw new InvalidOperationError(
      "The private key of the GitHub App is no key in PEM form. Give the whole file that GitHub made.",
    );
  }
}
