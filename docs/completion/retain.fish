# fish completion for retain: the program itself knows what fits.
complete -c retain -k -a '(retain complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
