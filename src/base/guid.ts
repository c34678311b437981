const pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const emptyGuid = "00000000-0000-0000-0000-000000000000";

export const isGuid = (value: unknown): value is string => typeof value === "string" && pattern.test(value);
