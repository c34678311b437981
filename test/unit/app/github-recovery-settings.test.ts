import { describe, expect, it } from "vitest";
import { readGithubRecovery } from "../../../src/config/environment.js";

const read = (ONCEBOX_RECOVER_GITHUB: string, ONCEBOX_GITHUB_TOKEN = "ghp_1") =>
  readGithubRecovery({ ONCEBOX_RECOVER_GITHUB, ONCEBOX_GITHUB_TOKEN });

describe("the settings of the recovery of GitHub's deliveries", () => {
  it("FUN-12 name webhooks of repositories and organizations, a token, and an Enterprise Server", () => {
    expect(readGithubRecovery({ ONCEBOX_GITHUB_TOKEN: "ghp_1" })).toBeUndefined();
    expect(read(" ")).toBeUndefined();
    expect(read("acme/shop.js:7, acme:42")).toEqual({
      hooks: [
        { repository: "acme/shop.js", hookId: "7" },
        { organization: "acme", hookId: "42" },
      ],
      token: "ghp_1",
    });
    const reference = { from: "env", name: "TOKEN" };
    expect(
      readGithubRecovery({
        ONCEBOX_RECOVER_GITHUB: "acme:42",
        ONCEBOX_GITHUB_TOKEN: JSON.stringify(reference),
        ONCEBOX_GITHUB_API_URL: "https://github.acme.com/api/v3",
      }),
    ).toMatchObject({ token: reference, apiUrl: "https://github.acme.com/api/v3" });
  });

  it("FUN-12 wrong ones are refused with what to write, and the token is never quoted", () => {
    for (const wrong of ["acme/shop", "acme/shop:x", "acme/shop/x:1", ",", "acme/shop:1,", "https://x:1"])
      expect(() => read(wrong), wrong).toThrow(/owner\/repository:hookId or organization:hookId/);
    expect(() => read("acme:42", "")).toThrow(/ONCEBOX_GITHUB_TOKEN is not/);
    for (const token of ['{"from":"vault","secret":"ghp_2"}', "{ghp_2"])
      expect(() => read("acme:42", token)).toThrow(/^(?!.*ghp_2).*must be a token or/);
  });
});
