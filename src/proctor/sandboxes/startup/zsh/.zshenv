# What zsh reads in `proctor sandbox shell`. ZDOTDIR points here, PROCTOR_ZDOTDIR to where the user's own files are:
# each of them is read as if it had been found by zsh itself.
_proctor_zdotdir=$ZDOTDIR
ZDOTDIR=$PROCTOR_ZDOTDIR
[[ -f $ZDOTDIR/.zshenv ]] && source $ZDOTDIR/.zshenv
PROCTOR_ZDOTDIR=$ZDOTDIR
ZDOTDIR=$_proctor_zdotdir
