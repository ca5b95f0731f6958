"""``tracer completion``: the script that teaches a shell to complete ``tracer``."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from tracer.cli.output import show

SHELLS = ("bash", "zsh", "fish")
#: How each shell is told, once.
INSTALL = {
    "bash": """echo 'eval "$(tracer completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(tracer completion zsh)"' >> ~/.zshrc""",
    "fish": "tracer completion fish > ~/.config/fish/completions/tracer.fish",
}
VARIABLE = "_TRACER_COMPLETE"

EXAMPLES = f"""\b
Examples:
  {INSTALL["bash"]}
  {INSTALL["zsh"]}
  {INSTALL["fish"]}"""


@click.command("completion", epilog=EXAMPLES)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that makes a shell complete subcommands, options, backends, versions, formats and rules."""
    from tracer.cli.main import tracer

    found = get_completion_class(shell)
    assert found is not None, shell
    # Not found.source(): click's for bash runs bash to learn its version, which a script's printer has no need of.
    script = ShellComplete.source(found(tracer, {}, "tracer", VARIABLE))
    show(f"# Installed by: {INSTALL[shell]}\n{script.strip()}")
    return 0
