import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import type { FunctionsWorker } from "./functions-worker.js";
import { loadInProcess } from "./in-process-worker.js";

interface RpcResponse {
  readonly http: {
    readonly headers: Readonly<Record<string, string>>;
    readonly cookies: readonly Readonly<Record<string, unknown>>[];
  };
}

describe("Set-Cookie, through Microsoft's library", () => {
  let worker: FunctionsWorker;
  beforeAll(async () => {
    worker = await loadInProcess(fileURLToPath(new URL("cookie-app", import.meta.url)), () => {});
  });

  const responseWith = async (count: number): Promise<RpcResponse["http"]> => {
    const url = `https://shop.example/api/cookies?count=${count}`;
    const request = { http: { method: "GET", url, headers: {} } };
    const response = await worker.invoke("cookies", request as never, `invocation-${count}`);
    return (response as unknown as RpcResponse).http;
  };

  it("MID-03 azureHttp keeps every cookie with its attributes", async () => {
    const { headers, cookies } = await responseWith(4);
    expect(headers).toMatchObject({ "x-other": "kept" });
    expect(headers).not.toHaveProperty("set-cookie");
    expect(cookies).toMatchObject([
      {
        name: "session",
        value: "a b", // the host encodes it again
        path: { value: "/" },
        httpOnly: { value: true },
        secure: { value: true },
        sameSite: "lax",
      },
      {
        name: "theme",
        value: "dark",
        maxAge: { value: 60 },
        domain: { value: "shop.example" },
        sameSite: "explicitNone",
      },
      { name: "seen", value: "1", expires: { value: { seconds: Date.UTC(2099, 9, 21, 7, 28) / 1_000 } } },
      { name: "gone", value: "", maxAge: { value: 0 } },
    ]);
  });

  it("MID-03 a single cookie stays as the handler wrote it", async () => {
    const { headers, cookies } = await responseWith(1);
    expect(headers["set-cookie"]).toBe("session=a%20b; Path=/; HttpOnly; Secure; SameSite=Lax");
    expect(cookies).toEqual([]);
  });
});
