export const databases = ["sqlserver", "postgres", "sqlite"] as const;
export type BundledDatabase = (typeof databases)[number];
