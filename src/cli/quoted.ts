/** A shell changes nothing inside single quotes. */
export const quoted = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`;
