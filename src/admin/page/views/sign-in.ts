import { ApiError, api, remember } from "../api.js";
import { element } from "../dom.js";
import { field, form } from "../parts.js";

/** Asks for the token. Resolves when the server accepts it; nothing else is shown before. */
export function signIn(show: (content: HTMLElement) => void, problem = ""): Promise<void> {
  return new Promise((resolve) => {
    const token = element("input", {
      id: "token",
      type: "password",
      autocomplete: "current-password",
      required: true,
      maxlength: 1_000,
    });
    const by = element("input", { id: "by", autocomplete: "name", maxlength: 100 });
    const submit = async () => {
      remember("token", token.value.trim());
      remember("by", by.value.trim());
      try {
        await checkToken();
      } catch (error) {
        remember("token", "");
        token.focus();
        throw error;
      }
      resolve();
    };
    show(
      form(
        { class: "card sign-in", "aria-labelledby": "sign-in-title" },
        { label: "Sign in", submit, problem },
        element("h1", { id: "sign-in-title" }, "Sign in to oncebox"),
        field("Admin token", token, "Of the form name:secret. It is kept until this tab is closed."),
        field("Your name", by, "Recorded with what you do. Otherwise the token's name is recorded."),
      ),
    );
    token.focus();
  });
}

/** A database that is away is shown by the views; it is no reason to refuse a token. */
export async function checkToken(): Promise<void> {
  try {
    await api.health();
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 503)) throw error;
  }
}
