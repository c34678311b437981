/** Connections of each server to its database. */
export const connections = 10;

export const token = "Yt1Wq0m2bZ4cQ9n8Xr5sVg==";

/** What a server returns when it is asked. */
export interface ServerAnswer {
  readonly port: number;
}
