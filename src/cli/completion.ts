import { phases } from "../queue/message.js";
import { queueKinds } from "../queue/work-store.js";
import { type Command, exitCodes, oneOf, UsageError } from "./command.js";
import { quoted } from "./output.js";

const shells = ["bash", "zsh", "fish"] as const;

/** Options that have the same few values in every command. */
const optionValues: Readonly<Record<string, readonly string[]>> = { queue: queueKinds, state: phases };
const valueCases = (of: (words: string) => string): string =>
  Object.entries(optionValues)
    .map(([option, words]) => `    --${option}) ${of(words.join(" "))}; return ;;`)
    .join("\n");

/** Made of the command table, so that a new command or option completes by itself. */
export const completionCommand = (commands: () => readonly Command[]): Command => ({
  name: "completion",
  summary: "print a script that completes commands and options in a shell",
  usage: `completion ${shells.join("|")} | --json`,
  options: { json: { type: "boolean" } },
  help: { json: "print the commands with their options as JSON, for another shell or program" },
  examples: [
    'eval "$(oncebox completion bash)"      # in ~/.bashrc',
    'eval "$(oncebox completion zsh)"       # in ~/.zshrc, after compinit',
    "oncebox completion fish > ~/.config/fish/completions/oncebox.fish",
    "oncebox completion --json",
  ],
  positionals: 1,
  words: shells,
  async run({ values, positionals, terminal }) {
    if (values.json) {
      if (positionals.length > 0) throw new UsageError("Name a shell, or give --json, not both.");
      terminal.out(JSON.stringify({ commands: commands().map(described) }));
      return exitCodes.ok;
    }
    const shell = oneOf(shells, positionals[0], "The shell");
    terminal.out(scripts[shell](commands()));
    return exitCodes.ok;
  },
});

const described = ({ name, summary, usage, options, help, examples, words = [] }: Command): object => ({
  name,
  summary,
  usage: `oncebox ${usage}`,
  words,
  options: Object.entries(options).map(([option, { type }]) => ({ name: option, type, help: help[option] })),
  examples,
});

const flagsOf = ({ options }: Command): readonly string[] =>
  [...Object.keys(options), "help"].map((name) => `--${name}`);

const helpOf = (command: Command, flag: string): string =>
  flag === "--help" ? "describe the command" : (command.help[flag.slice(2)] ?? "");

/** `-o default` completes file names where the function finds nothing, such as after --app. */
const bash = (commands: readonly Command[]): string => `_oncebox() {
  local word="\${COMP_WORDS[COMP_CWORD]}" flags="" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quoted(commands.map(({ name }) => name).join(" "))} -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${commands.map(bashCase).join("\n")}
  esac
  case "\${COMP_WORDS[COMP_CWORD - 1]}" in
${valueCases((words) => `COMPREPLY=($(compgen -W ${quoted(words)} -- "$word"))`)}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) if [ "$COMP_CWORD" -eq 2 ]; then COMPREPLY=($(compgen -W "$words" -- "$word")); fi ;;
  esac
}
complete -o default -F _oncebox oncebox`;

const bashCase = (command: Command): string =>
  `    ${command.name}) flags=${quoted(flagsOf(command).join(" "))} words=${quoted((command.words ?? []).join(" "))} ;;`;

/** `_describe` separates a word from its description by a colon. */
const withColon = (word: string, description: string): string =>
  quoted(`${word}:${description.replaceAll(":", "\\:")}`);

const zsh = (commands: readonly Command[]): string => `#compdef oncebox
_oncebox() {
  local -a found flags
  if (( CURRENT == 2 )); then
    found=(${commands.map(({ name, summary }) => withColon(name, summary)).join(" ")})
    _describe command found
    return
  fi
  case $words[2] in
${commands.map(zshCase).join("\n")}
  esac
  case $words[CURRENT-1] in
${valueCases((words) => `found=(${words}); _describe value found`)}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o option flags
  elif (( CURRENT == 3 && $#found > 0 )); then
    _describe argument found
  else
    _files
  fi
}
if [[ $funcstack[1] == _oncebox ]]; then _oncebox "$@"; else compdef _oncebox oncebox; fi`;

const zshCase = (command: Command): string => {
  const flags = flagsOf(command).map((flag) => withColon(flag, helpOf(command, flag)));
  return `    ${command.name}) flags=(${flags.join(" ")}) found=(${(command.words ?? []).join(" ")}) ;;`;
};

const fish = (commands: readonly Command[]): string =>
  [
    "function __oncebox_is",
    "  set -l words (commandline -opc)",
    "  test (count $words) -ge 2; and test $words[2] = $argv[1]",
    "end",
    ...commands.flatMap(fishLines),
  ].join("\n");

/** A backslash escapes in fish's single quotes, unlike in other shells'. */
const fishQuoted = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

const fishLines = (command: Command): readonly string[] => {
  const { name, summary, options, words } = command;
  const within = `complete -c oncebox -n '__oncebox_is ${name}'`;
  return [
    `complete -c oncebox -f -n __fish_is_first_token -a ${name} -d ${fishQuoted(summary)}`,
    ...(words === undefined ? [] : [`${within} -f -a ${fishQuoted(words.join(" "))}`]),
    ...flagsOf(command).map((flag) => {
      const name = flag.slice(2);
      const words = optionValues[name];
      const needsValue = options[name]?.type === "string" ? " -r" : "";
      const values = words === undefined ? "" : ` -f -a ${fishQuoted(words.join(" "))}`;
      return `${within} -l ${name}${needsValue}${values} -d ${fishQuoted(helpOf(command, flag))}`;
    }),
  ];
};

const scripts = { bash, zsh, fish } as const;
