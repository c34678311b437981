const width = 120;

/** A list with commas, in lines of a readable length. The first line is not indented: it goes on where the text before it ends. */
export function inLines(items: readonly string[], indent = "  "): string {
  const lines: string[] = [];
  for (const item of items) {
    const last = lines.at(-1);
    const longer = `${last}, ${item}`;
    if (last === undefined || indent.length + longer.length > width) lines.push(item);
    else lines[lines.length - 1] = longer;
  }
  return lines.join(`,\n${indent}`);
}
