import itertools
import torch


def squeeze_bits(t):
    return t.to(torch.bfloat16).to(t.dtype)


def low_precision(keep):
    def backend(gm, example_inputs):
        graph = gm.graph
        calls = [n for n in graph.nodes if n.op == "call_function"]
        names = {n.name for n in calls}
        chosen = set(itertools.islice(names, keep))
        for node in calls:
            if node.name in chosen:
                with graph.inserting_after(node):
                    extra = graph.call_function(squeeze_bits, (node,))
                node.replace_all_uses_with(extra)
                extra.args = (node,)
        graph.lint()
        gm.recompile()
        return gm.forward
    return backend
