/** Where `retries` and `answerWithin` were looked for, and when. */
export interface DeliveryCheck {
  /**
   * The provider's own page that says so, or whose text others quote. Without one nothing was found in those parts of the
   * provider's documentation that could be read: they are then what is commonly said, and may be wrong.
   */
  readonly page?: string;
  /** `2026-11-17`. */
  readonly date: string;
  /** What was not seen on the page: `the 15 s`. */
  readonly notSeen?: string;
}

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
    /** The provider's own code that accepted what we sign when somebody tried it once. No test does. */
    readonly byHand?: string;
    readonly delivery: DeliveryCheck;
  };
}
