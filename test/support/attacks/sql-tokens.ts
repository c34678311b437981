/** How a database writes names. SQL Server and SQLite know brackets, PostgreSQL knows dollar quotes. */
export type SqlLexing = "sqlserver" | "postgres" | "sqlite";

const common = String.raw`--[^\n]*|/\*[\s\S]*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"`;
const patterns: Readonly<Record<SqlLexing, string>> = {
  sqlserver: String.raw`${common}|\[(?:[^\]]|\]\])*\]`,
  sqlite: common,
  postgres: String.raw`${common}|(\$\w*\$)[\s\S]*?\1`,
};

/** A text that is itself SQL, which another statement executes. Names such as "select" are one line. */
const isSql =
  /^\s*(?:(?:create|alter|drop|insert|update|delete|declare|begin|exec|if|do)\b|(?:select|with)\b.*\n)/i;

/**
 * The tokens of a statement, of which each quoted name is the word NAME and each text the word TEXT. Of a text that is SQL
 * there are its own tokens. Two statements that differ only in their names have the same.
 */
export function sqlTokens(sql: string, lexing: SqlLexing): readonly string[] {
  const tokens: string[] = [];
  const token = new RegExp(String.raw`${patterns[lexing]}|\w+|[^\s\w]`, "gu");
  for (const [text, dollar] of sql.matchAll(token)) {
    if (text.startsWith("--") || text.startsWith("/*")) continue;
    if (dollar !== undefined)
      tokens.push("BODY", ...sqlTokens(text.slice(dollar.length, -dollar.length), lexing));
    else if (text.length > 1 && /^["[]/.test(text)) tokens.push("NAME");
    else if (text.length > 1 && text.startsWith("'")) tokens.push(...textTokens(text, lexing));
    else tokens.push(text);
  }
  return tokens;
}

function textTokens(quoted: string, lexing: SqlLexing): readonly string[] {
  const text = quoted.slice(1, -1).replaceAll("''", "'");
  return isSql.test(text) ? ["SQL", ...sqlTokens(text, lexing)] : ["TEXT"];
}
