ZDOTDIR=$PROCTOR_ZDOTDIR
# A system-wide start-up file may have put the history beside this one.
[[ $HISTFILE == $_proctor_zdotdir/* ]] && HISTFILE=$ZDOTDIR/.zsh_history
unset PROCTOR_ZDOTDIR _proctor_zdotdir
[[ -f $ZDOTDIR/.zshrc ]] && source $ZDOTDIR/.zshrc
PROMPT="($PROCTOR_SANDBOX) $PROMPT"
[[ $ZDOTDIR == $HOME ]] && unset ZDOTDIR
