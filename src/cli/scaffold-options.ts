export const scaffoldClouds = ["aws", "azure"] as const;
export type ScaffoldCloud = (typeof scaffoldClouds)[number];
export const scaffoldDatabases = ["postgres", "sqlserver"] as const;
export type ScaffoldDatabase = (typeof scaffoldDatabases)[number];

export interface ScaffoldOptions {
  readonly cloud: ScaffoldCloud;
  readonly database: ScaffoldDatabase;
  /** Whether the app has the inbox service. */
  readonly service: boolean;
  /** Whether the app has the diagnostics API. */
  readonly admin: boolean;
  /** Whether the app asks GitHub for failed deliveries. */
  readonly recover: boolean;
  readonly folder: string;
  readonly name: string;
}
