/** How a database writes names. SQL Server and SQLite know brackets, PostgreSQL knows dollar quotes. */
export type SqlLexing = "sqlserver" | "postgres" | "sqlite";

const common = String.raw`--[^\n]*|/\*[\s\S]*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"`;
const patterns: Readonly<Record<SqlLexing, string>> = {
  sqlserver: String.raw`${common}|\[(?:[^\]]|\]\])*\]`,
  sqlite: common,
  postgres: String.raw`${common}|(\$\w*\$)[\s\S]*?\1`,
};

/** A text that is itself SQL, which another statement executes. Names such as "select" are one line. A name with its schema is SQL too. */
const isSql =
  /^\s*(?:(?:create|alter|drop|insert|update|delete|declare|begin|exec|if|do)\b|(?:select|set|with)\b.*\n|\[.*\]\.\[|".*"\.")/i;

/** The tokens of a statement. Names and texts are without their quotes. Of a text that is SQL there are its own tokens. */
export function sqlTokens(sql: string, lexing: SqlLexing): readonly string[] {
  const tokens: string[] = [];
  const token = new RegExp(String.raw`${patterns[lexing]}|\w+|[^\s\w]`, "gu");
  for (const [text, dollar] of sql.matchAll(token)) {
    if (text.startsWith("--") || text.startsWith("/*")) continue;
    if (dollar !== undefined)
      tokens.push("BODY", ...sqlTokens(text.slice(dollar.length, -dollar.length), lexing));
    else if (text.length > 1 && /^["[]/.test(text)) tokens.push(`name ${nameIn(text)}`);
    else if (text.length > 1 && text.startsWith("'")) tokens.push(...textTokens(text, lexing));
    else tokens.push(text);
  }
  return tokens;
}

function textTokens(quoted: string, lexing: SqlLexing): readonly string[] {
  const text = quoted.slice(1, -1).replaceAll("''", "'");
  return isSql.test(text) ? ["SQL", ...sqlTokens(text, lexing)] : [`text ${text}`];
}

const nameIn = (quoted: string): string =>
  quoted.startsWith("[")
    ? quoted.slice(1, -1).replaceAll("]]", "]")
    : quoted.slice(1, -1).replaceAll('""', '"');
