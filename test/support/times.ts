const factor = Number(process.env.ONCEBOX_TEST_TIMES ?? 1);

/** How many messages, attacks or seconds: `ONCEBOX_TEST_TIMES=100` makes a test a hundred times as long. */
export const times = (usual: number): number => Math.ceil(usual * factor);

/** Whether somebody asked for more than usual. */
export const isLonger = factor > 1;
