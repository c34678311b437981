/** What people must know of a provider. The guide's tables and the tests read it; a running app does not. */
export interface PresetAbout {
  /** As the provider writes it: `GitHub`. */
  readonly name: string;
  /** Whether one request may have several events. */
  readonly batches: boolean;
  /** Whether it sends again, for how long, and after which answers. */
  readonly retries: string;
  /** How long it waits for an answer: `3 s`. Undefined where nothing says so. */
  readonly answerWithin: string | undefined;
  /** Where the secret comes from and what it looks like. */
  readonly secret: string;
  /** What is signed, and what is not. */
  readonly signs: string;
  /** Why the id is unique, and the same in each retry. */
  readonly idIsUnique: string;
  readonly checked: {
    /** The title of the provider's page. */
    readonly title: string;
    /** `2026-11`. */
    readonly date: string;
    /** What the test's genuine delivery was made with: the provider's own SDK, its published vector, or its documentation alone. */
    readonly with: "sdk" | "vector" | "documentation";
  };
}
